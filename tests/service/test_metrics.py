import json
import logging
import re
from itertools import pairwise
from urllib.parse import urlencode

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.sight.metrics import latency_buckets
from service.wire.context import STAGES
from service.wire.requests import Limits


def series(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def timing(answer: httpx.Response) -> dict[str, float]:
    pairs = re.findall(r"(\w+);dur=([0-9.]+)", answer.headers["server-timing"])
    return {stage: float(milliseconds) for stage, milliseconds in pairs}


BOOST = {"field": "length", "half_value": 3, "weight": 0.1}
EVERY_STAGE = {"highlight": "words", "filter": {}, "boost": BOOST, "sort": "length:asc"}
AS_JSON = {"boost": json.dumps(BOOST)}
TRAFFIC = [
    ("POST", "/search", {"json": {"query": "bread", **EVERY_STAGE}}),
    ("POST", "/search", {"content": b"{"}),
    ("POST", "/search", {"json": {"query": "bread", "top_k": 0}}),
    ("POST", "/search", {"content": b" " * 300}),
    ("GET", f"/search?q=bread&{urlencode({**EVERY_STAGE, 'filter': '{}', **AS_JSON})}", {}),
    ("PUT", "/search", {}),
    ("POST", "/search/batch", {"json": {"queries": ["bread", "sea", "ice"], **EVERY_STAGE}}),
    ("POST", "/search/batch", {"json": {"queries": ["bread"] * 5}}),
    ("GET", "/documents/bread-1", {}),
    ("GET", "/documents/bread-100", {}),
    ("GET", "/nothing/1", {}),
    ("POST", "/nothing/2", {}),
    ("HEAD", "/info", {}),
    ("GET", "/facets", {}),
    ("GET", "/docs", {}),
    ("GET", "/openapi.json", {}),
    ("GET", "/health/ready", {}),
]


def test_metrics_count_all_requests_in_series_that_exist_from_the_first_scrape(
    make_application, small_searcher
):
    limits = Limits(max_batch_queries=4, max_body_bytes=200)
    application = make_application(small_searcher, limits)
    before = series(application.ask("GET", "/metrics").text)
    total = dict.fromkeys(STAGES, 0.0)
    expected: dict[tuple[str, str], int] = {("/metrics", "200"): 1}
    for method, path, request in TRAFFIC:
        answer = application.ask(method, path, **request)
        times = timing(answer)
        assert times.pop("total") >= sum(times.values()) or "batch" in path
        for stage, milliseconds in times.items():
            total[stage] += milliseconds / 1000
        route = re.sub(r"/nothing/.", "unknown", path.partition("?")[0])
        route = re.sub(r"/documents/.*", "/documents/{document_id}", route)
        counted = route, str(answer.status_code)
        expected[counted] = expected.get(counted, 0) + 1
    after = series(application.ask("GET", "/metrics").text)
    assert before.keys() == after.keys()
    counts = {
        (dict(labels)["route"], dict(labels)["status"]): value
        for (name, labels), value in after.items()
        if name == "swiftlet_requests_total" and value
    }
    assert counts == expected
    assert after["swiftlet_requests_in_flight", frozenset()] == 1
    for stage in STAGES:
        labels = frozenset({("stage", stage)})
        runs = 0 if stage == "rerank" else 5  # there is no re-ranker
        assert after["swiftlet_stage_seconds_count", labels] == runs
        assert after["swiftlet_stage_seconds_sum", labels] == pytest.approx(total[stage], abs=1e-5)
    seconds = after["swiftlet_request_seconds_count", frozenset({("route", "/search")})]
    assert seconds == sum(count for (route, _), count in expected.items() if route == "/search")


def test_metrics_name_the_index_and_the_encoder_at_work(client):
    families = {
        family.name: family.samples
        for family in text_string_to_metric_families(client.get("/metrics").text)
    }
    info = client.get("/info").json()
    (index,) = families["swiftlet_index_info"]
    assert (index.value, index.labels["num_documents"]) == (1, "60")
    assert index.labels["fingerprint"] == info["index"]["fingerprint"]
    (encoder,) = families["swiftlet_encoder_info"]
    assert encoder.labels["precision"] == info["encoder"]["precision"]
    assert families["process_resident_memory_bytes"][0].value > 1e6


def test_latency_buckets_begin_at_a_tenth_of_a_millisecond_and_grow_by_half():
    buckets = latency_buckets()
    assert buckets[0] == 0.0001
    assert buckets[-1] > 30
    assert all(1.4 < larger / smaller < 1.6 for smaller, larger in pairwise(buckets))


@pytest.mark.parametrize(("path", "stages"), [("/search?q=bread", STAGES), ("/nothing", ())])
def test_every_answer_has_the_time_of_each_stage(client, path, stages):
    times = timing(client.get(path))
    assert tuple(times) == (*stages, "total")
    assert 0 < times["total"] < 10_000


@pytest.mark.parametrize("given", ["abc-123", "Root=1-67/a:b+c@d~e.f_g", "a" * 128])
def test_a_sane_request_id_is_kept(client, given):
    answer = client.get("/nothing", headers={"X-Request-Id": given})
    assert answer.headers["x-request-id"] == answer.json()["request_id"] == given


@pytest.mark.parametrize("given", ["", "a b", "a" * 129, "ä", '"><script>', "a\tb"])
def test_any_other_request_id_is_replaced(client, given):
    answer = client.get("/nothing", headers={"X-Request-Id": given.encode()})
    assert re.fullmatch("[0-9a-f]{16}", answer.headers["x-request-id"])
    other = client.get("/nothing").headers["x-request-id"]
    assert other != answer.headers["x-request-id"]


def test_query_texts_are_in_no_log_and_no_metric(make_application, small_searcher, caplog):
    application = make_application(small_searcher, access_log=True)
    with caplog.at_level(logging.DEBUG):
        answers = [
            application.ask("GET", "/search?q=private"),
            application.ask("POST", "/search", json={"query": "private"}),
            application.ask("POST", "/search", json={"query": "private\0"}),
            application.ask("POST", "/search/batch", json={"queries": ["private"]}),
            application.ask("GET", "/private"),
        ]
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("service")]
    assert [line.split()[0] for line in logged] == [a.headers["x-request-id"] for a in answers]
    assert re.fullmatch(r"\S+ GET /search 200 [0-9.]+ ms", logged[0])
    assert not any("private" in line for line in logged)
    assert "private" not in application.ask("GET", "/metrics").text
