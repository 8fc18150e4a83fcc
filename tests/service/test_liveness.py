"""What one client may ask of the event loop is bounded, with and without a key.

Milliseconds depend on the machine: docs/results/service.md has those of the attacks.
"""

import asyncio
import json
import threading
from collections.abc import Iterator
from time import thread_time
from typing import Any

import pytest
from prometheus_client import Metric

from service.admission import executor as executor_module
from service.admission.cost import COST
from service.admission.executor import SearchExecutor
from service.routes import search as search_routes
from service.routes.writes import MOST_VALUES
from service.wire import body as body_module
from service.wire.body import SMALL_BODY_BYTES, parse_large
from service.wire.problems import TooLargeError
from swiftlet.search.request import SearchRequest
from tests.service.attacker import is_refused, read_problem

NO_KEY = b"Authorization:"
BODY_ROUTES = ("/search", "/search/batch", "/v1/embeddings", "/rerank", "/admin/reload")


@pytest.mark.parametrize("key", [b"", b"Authorization: Bearer wrong\r\n"], ids=["none", "wrong"])
@pytest.mark.parametrize(
    "line", [*(f"POST {route}" for route in (*BODY_ROUTES, "/documents/delete")), "PUT /documents"]
)
def test_without_the_key_no_byte_of_a_body_is_awaited(attacker, line, key):
    head = f"{line} HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999\r\n".encode()
    answer = attacker.exchange(head + key + b"\r\n")
    assert answer is not None
    read_problem(answer)
    if "documents" in line:  # no write key is set
        assert answer.status == 403
    else:
        assert answer.status == (403 if key else 401)


def test_the_event_loop_parses_small_bodies_only(make_application, small_searcher, monkeypatch):
    parsed, parse = [], body_module.from_json

    def noted(body: bytes, **options: Any) -> Any:
        parsed.append((threading.current_thread() is threading.main_thread(), len(body)))
        return parse(body, **options)

    monkeypatch.setattr(body_module, "from_json", noted)
    application = make_application(small_searcher)
    for characters in (1, SMALL_BODY_BYTES // 7, SMALL_BODY_BYTES // 6, 9_000):
        queries = ["bread " * (characters // 6) + "bread"] * 7
        asked = application.ask("POST", "/search/batch", json={"queries": queries, "top_k": 1})
        assert asked.status_code in {200, 422}
    assert {on_loop for on_loop, _ in parsed} == {True, False}
    assert all(on_loop == (size <= SMALL_BODY_BYTES) for on_loop, size in parsed)


def test_values_are_counted_outside_texts():
    for text in ("a, b", '{"a":[1,2', "\\", '\\"', ',\\",\\\\', "[" * 5_000):
        body = {"input": [f"{text} {number}" for number in range(2_048)]}
        for ascii_only in (True, False):
            written = json.dumps(body, ensure_ascii=ascii_only).encode()
            assert parse_large(written) == body
            with pytest.raises(TooLargeError, match="more than 2048 values, objects and lists"):
                parse_large(written, 2_048)


def test_a_write_has_fewer_values_than_its_bound():
    def written(count: int) -> bytes:  # with two objects, two lists and no comma before the first
        return b'{"documents":[{"a":[' + b",".join([b"1"] * (count - 3)) + b"]}]}"

    assert parse_large(written(MOST_VALUES - 1), MOST_VALUES)
    with pytest.raises(TooLargeError, match=f"more than {MOST_VALUES} values"):
        parse_large(written(MOST_VALUES), MOST_VALUES)


@pytest.mark.parametrize("path", ["/search", "/facets", "/suggest", "/info", "/documents/a"])
def test_parameters_are_counted_before_they_are_parsed(attacker, path):
    few = attacker.send("GET", f"{path}?{'&'.join(['q=a'] + 63 * ['b=a'])}")
    assert few.status in {200, 404, 422}
    assert b"parameters" not in few.body
    many = attacker.send("GET", f"{path}?{'&'.join(['q=a'] + 64 * ['b=a'])}")
    is_refused(many, 422, None, "the query string has 65 parameters; at most 64 are expected")
    assert attacker.send("GET", f"{path}?{65 * 'b&'}", None, NO_KEY).status == 401


def test_after_a_call_that_was_too_long_the_event_loop_runs_none(monkeypatch):
    monkeypatch.setattr(executor_module, "_SECONDS_AFTER_LONG_CALL", 1000.0)
    executor = SearchExecutor(1)

    def thread_after(seconds: float) -> str:
        end = thread_time() + seconds
        while thread_time() < end:
            pass
        return threading.current_thread().name

    async def names() -> list[str]:
        return [each.result for each in await executor.map(thread_after, [0.1, 0.0, 0.0])]

    first, *others = asyncio.run(names())
    executor.close()
    assert first == threading.main_thread().name
    assert {name.rpartition("_")[0] for name in others} == {"long-search"}


def test_what_may_take_long_does_not_run_on_the_event_loop(small_searcher):
    longest = executor_module._LONGEST_SHARE_SECONDS
    for asked in (SearchRequest("a" * 10_000), SearchRequest("a", top_k=1000)):
        assert COST.of(asked, small_searcher)[0] > longest
    assert COST.of(SearchRequest("a" * 100, top_k=100), small_searcher)[0] < longest
    assert COST.beside_loop > longest


def test_metrics_and_the_contract_are_written_beside_the_event_loop(
    make_application, small_searcher
):
    threads = []

    class Noted:
        def collect(self) -> Iterator[Metric]:
            threads.append(threading.current_thread().name)
            yield from ()

    application = make_application(small_searcher)
    application.registry.register(Noted())
    threads.clear()
    assert application.ask("GET", "/metrics").is_success
    assert application.ask("GET", "/openapi.json").is_success
    assert [name.rpartition("_")[0] for name in threads] == ["beside-loop"]


def test_a_batch_with_too_many_bytes_of_documents_is_refused(
    make_application, small_searcher, monkeypatch
):
    application = make_application(small_searcher)
    body = {"queries": ["bread", "chess"], "top_k": 9}
    size_bytes = len(application.ask("POST", "/search/batch", json=body).content)
    monkeypatch.setattr(search_routes, "LARGEST_ANSWER_BYTES", size_bytes)
    assert application.ask("POST", "/search/batch", json=body).is_success
    monkeypatch.setattr(search_routes, "LARGEST_ANSWER_BYTES", 1000)
    answer = application.ask("POST", "/search/batch", json=body)
    assert answer.status_code == 422
    assert "bytes; at most 1000 are answered" in answer.json()["detail"]
