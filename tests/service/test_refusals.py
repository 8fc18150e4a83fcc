import logging
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from service.wire.problems import PROBLEMS, kind_of
from service.wire.requests import Limits
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import CorruptIndexError
from swiftlet.search.searcher import Searcher
from swiftlet.types import Embeddings
from tests.service.conftest import with_encoder

TEXT = "a text of 1 to 10000 characters, not all blank is expected"
MILLISECONDS = "a whole number of milliseconds from 1 to 5000 is expected"
WHOLE = "a whole number from 1 to 1000 is expected"
MODES = '"hybrid", "dense" or "lexical" is expected'
SHARE = "a number from 0 to 1 is expected"


def check(answer: httpx.Response, status: int, field: str | None, sentence: str) -> None:
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (answer.status_code, problem["status"]) == (status, status), problem
    assert problem["request_id"] == answer.headers["x-request-id"]
    assert problem["type"] in {f"/docs#{kind.name}" for kind in PROBLEMS.values()}
    assert problem["title"]
    assert problem.get("field") == field
    assert sentence in problem["detail"]
    assert len(problem["detail"]) < 200


@pytest.mark.parametrize(
    ("body", "status", "field", "sentence"),
    [
        (b"", 400, None, "the body is not JSON"),
        (b"query=bread", 400, None, "the body is not JSON"),
        (b'{"query":"a"} more', 400, None, "trailing characters"),
        (b'{"query":"\xff"}', 400, None, "the body is not JSON"),
        (b'{"query":"a","top_k":NaN}', 400, None, "the body is not JSON"),
        (b'{"query":"a\\ud800","top_k":NaN}', 400, None, "the body is not JSON"),
        (b'{"query":"a","top_k":' + b"9" * 9000 + b"}", 422, "top_k", f"is Infinity; {WHOLE}"),
        (b"[" * 60_000, 400, None, "recursion limit"),
        (b'"\\ud800' + b"[" * 60_000, 400, None, "the body is not JSON"),
        (b'{"a":"\\ud800","b":' + b"[" * 9000 + b"]" * 9000 + b"}", 400, None, "is not JSON"),
        (b"[]", 422, None, "the body is not a JSON object"),
        (b'"bread"', 422, None, "the body is not a JSON object"),
        (b"{}", 422, "query", f"query is missing; {TEXT}"),
        (b'{"query":""}', 422, "query", f"query is empty; {TEXT}"),
        (b'{"query":null}', 422, "query", f"query is null; {TEXT}"),
        (b'{"query":["a"]}', 422, "query", f"query is a list; {TEXT}"),
        (b'{"query":" \\u3000\\t"}', 422, "query", "at least one character that is not blank"),
        (b'{"query":"a\\u0000"}', 422, "query", "the query holds a NUL character"),
        (b'{"query":"a\\udfff"}', 422, "query", f"half of a surrogate pair; {TEXT}"),
        (b'{"query":"%b"}' % (b"x" * 10_001), 422, "query", f"has 10001 characters; {TEXT}"),
        (b'{"query":"%b"}' % (b" " * 60_000), 422, "query", "has 60000 characters"),
        (b'{"query":"a","top_k":0}', 422, "top_k", f"top_k is 0; {WHOLE}"),
        (b'{"query":"a","top_k":1001}', 422, "top_k", f"top_k is 1001; {WHOLE}"),
        (b'{"query":"a","top_k":10.0}', 422, "top_k", f"top_k is 10.0; {WHOLE}"),
        (b'{"query":"a","top_k":true}', 422, "top_k", f"top_k is true; {WHOLE}"),
        (b'{"query":"a","top_k":"10"}', 422, "top_k", f"top_k is a text; {WHOLE}"),
        (b'{"query":"a","top_k":' + b"9" * 4000 + b"}", 422, "top_k", f"…; {WHOLE}"),
        (b'{"query":"a","include_text":1}', 422, "include_text", "is 1; true or false is expected"),
        (b'{"query":"a","timeout_ms":0}', 422, "timeout_ms", f"is 0; {MILLISECONDS}"),
        (b'{"query":"a","timeout_ms":5001}', 422, "timeout_ms", f"is 5001; {MILLISECONDS}"),
        (b'{"query":"a","timeout_ms":null}', 422, "timeout_ms", f"is null; {MILLISECONDS}"),
        (b'{"query":"a","mode":"x"}', 422, "mode", f'mode is "x"; {MODES}'),
        (b'{"query":"a","mode":["dense"]}', 422, "mode", f"mode is a list; {MODES}"),
        (b'{"query":"a","weight":1.5}', 422, "weight", f"weight is 1.5; {SHARE}"),
        (b'{"query":"a","weight":-1}', 422, "weight", f"weight is -1; {SHARE}"),
        (b'{"query":"a","weight":"1"}', 422, "weight", f"weight is a text; {SHARE}"),
        (
            b'{"query":"a","highlight":"x"}',
            422,
            "highlight",
            'is "x"; "words" or "sentence" is exp',
        ),
        (
            b'{"query":"a","highlight":"words","include_text":false}',
            422,
            "highlight",
            "include_text true",
        ),
        (
            b'{"query":"a","highlight":"sentence","top_k":51}',
            422,
            "highlight",
            "51 documents are asked for; at most 50 are highlighted",
        ),
        (b'{"query":"a","fusion":"sum"}', 422, "fusion", 'is "sum"; "weighted" or "rrf" is exp'),
        (
            b'{"query":"a","offset":-1}',
            422,
            "offset",
            "offset is -1; a whole number from 0 to 10000",
        ),
        (b'{"query":"a","offset":10001}', 422, "offset", "offset is 10001; a whole number from 0"),
        (
            b'{"query":"a","min_score":"1"}',
            422,
            "min_score",
            "min_score is a text; a number is exp",
        ),
        (b'{"query":"a","filter":"x"}', 422, "filter", "has 'x' where an object is expected"),
        (b'{"query":"a","filter":{"topic":null}}', 422, "filter", "has the value null, but"),
        (b'{"query":"a","filter":{"topic":[true,[null]]}}', 422, "filter", "the value [null], but"),
        (b'{"query":"a","filter":{"kind":1}}', 422, "filter", "the filter names 'kind', but"),
        (b'{"query":"a","filter":{"topic":1}}', 422, "filter", "'topic' with numbers, but its"),
        (b'{"query":"a","filter":{"\\ud800":"\\ud800"}}', 422, "filter", "names '\\ud800', but"),
        (b'{"query":"a","filter":' + b'{"not":' * 50 + b"1" + b"}" * 51, 422, "filter", "deep"),
        (
            b'{"query":"a","filter":{"length":[' + b"1," * 256 + b"1]}}",
            422,
            "filter",
            "the filter has 257 values and conditions; at most 256 are expected",
        ),
        (b'{"query":"a","fusion":"rrf","offset":1}', 422, "fusion", "which takes no offset"),
        (b'{"query":"a","fusion":"rrf","weight":1}', 422, "fusion", "which takes no weight"),
        (b'{"query":"a","timeout":5}', 422, "timeout", "the fields are query, top_k, offset, "),
        (b'{"query":"a","%b":5}' % (b"k" * 999), 422, "k" * 24 + "…", "there is no field kkkk"),
        (b'{"query":"a","\\ud800":5}', 422, None, "a field's name holds half of a surrogate pair"),
    ],
)
def test_a_bad_search_is_refused_in_one_sentence(
    client: httpx.Client, body: bytes, status: int, field: str | None, sentence: str
) -> None:
    check(client.post("/search", content=body), status, field, sentence)


@pytest.mark.parametrize(
    ("body", "status", "field", "sentence"),
    [
        ({"queries": []}, 422, "queries", "is empty; a list of 1 to 64 texts is expected"),
        ({"queries": "a"}, 422, "queries", "is a text; a list of 1 to 64 texts is expected"),
        (
            {"queries": ["a"] * 65},
            413,
            "queries",
            "has 65 entries; a list of 1 to 64 texts is expected",
        ),
        ({"queries": ["a", 3]}, 422, "queries[1]", f"queries[1] is 3; {TEXT}"),
        ({"queries": ["a", "b", " "]}, 422, "queries[2]", "queries[2]: the query is empty"),
        ({"queries": ["a"], "top_k": -1}, 422, "top_k", WHOLE),
        ({"queries": ["a"], "mode": ""}, 422, "mode", f'mode is ""; {MODES}'),
        ({"queries": ["a"] * 9, "fusion": "rrf", "weight": 1}, 422, "fusion", "takes no weight"),
        ({"queries": ["a"], "filter": {"no": 1}}, 422, "filter", "the filter names 'no'"),
        ({"query": "a"}, 422, "queries", "queries is missing"),
    ],
)
def test_a_bad_batch_is_refused_in_one_sentence(
    client: httpx.Client, body: object, status: int, field: str | None, sentence: str
) -> None:
    check(client.post("/search/batch", json=body), status, field, sentence)


@pytest.mark.parametrize(
    ("query_string", "field", "sentence"),
    [
        ("", "q", f"q is missing; {TEXT}"),
        ("q=", "q", f"q is empty; {TEXT}"),
        ("q=+%20", "q", "at least one character that is not blank"),
        ("q=a%00", "q", "NUL"),
        ("q=%ff", None, "the query string is not valid UTF-8"),
        ("q=%ed%a0%80", None, "the query string is not valid UTF-8"),
        ("q=a&q=b", "q", "q is given more than once"),
        ("q=a&top_k=", "top_k", WHOLE),
        ("q=a&top_k=1e1", "top_k", f"top_k is 10.0; {WHOLE}"),
        ("q=a&top_k=1_0", "top_k", WHOLE),
        ("q=a&top_k=1001", "top_k", f"top_k is 1001; {WHOLE}"),
        ("q=a&include_text=yes", "include_text", "true or false is expected"),
        ("q=a&mode=sparse", "mode", f'mode is "sparse"; {MODES}'),
        ("q=a&weight=", "weight", f'weight is ""; {SHARE}'),
        ("q=a&weight=1e9", "weight", f"weight is 1000000000.0; {SHARE}"),
        ("q=a&fusion=rrf&weight=0", "fusion", "fusion is 'rrf', which takes no weight"),
        ("q=a&filter=x", "filter", "the filter has 'x' where an object is expected"),
        ('q=a&filter={"topic":', "filter", "where an object is expected"),
        ('q=a&filter={"no":1}', "filter", "the filter names 'no'"),
        ("query=a", "q", "q is missing"),
        ("q=a&timeout_ms=1s", "timeout_ms", MILLISECONDS),
        ("q=a&timeout=5", "timeout", "there is no field timeout"),
    ],
)
def test_a_bad_link_is_refused_in_one_sentence(
    client: httpx.Client, query_string: str, field: str | None, sentence: str
) -> None:
    check(client.get(f"/search?{query_string}"), 422, field, sentence)


@pytest.mark.parametrize(
    ("query_string", "field", "sentence"),
    [
        ("filter=", "filter", "the filter has '' where an object is expected"),
        ('filter={"no":1}', "filter", "the filter names 'no', but the documents have the fields"),
        ("filter={}&filter={}", "filter", "filter is given more than once"),
        ("field=topic", "field", "there is no field field; the fields are filter"),
    ],
)
def test_bad_facets_are_refused_in_one_sentence(
    client: httpx.Client, query_string: str, field: str, sentence: str
) -> None:
    check(client.get(f"/facets?{query_string}"), 422, field, sentence)


@pytest.mark.parametrize(
    ("method", "path", "status", "sentence"),
    [
        ("GET", "/nothing", 404, "no route has this path"),
        ("GET", "/search/", 404, "no route has this path"),
        ("POST", "/nowhere", 404, "no route has this path"),
        ("GET", "/documents/no/such", 404, "no document has the id 'no/such'"),
        ("GET", "/documents/", 404, "no document has the id ''"),
        ("GET", "/documents/%ED%A0%80", 404, "no document has the id"),
        ("DELETE", "/search", 405, "the method is DELETE; GET or HEAD or POST is expected"),
        ("GET", "/search/batch", 405, "the method is GET; POST is expected"),
    ],
)
def test_a_missing_route_or_document_is_answered_with_a_problem(
    client: httpx.Client, method: str, path: str, status: int, sentence: str
) -> None:
    answer = client.request(method, path)
    check(answer, status, None, sentence)
    assert ("allow" in answer.headers) == (status == 405)


@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_a_mode_that_the_index_does_not_have_is_refused(
    make_application: Callable[..., Any], small_searcher: Searcher, mode: str
) -> None:
    without_words = with_encoder(small_searcher, small_searcher.encoder)
    answer = make_application(without_words).ask("GET", f"/search?q=bread&mode={mode}")
    check(answer, 422, None, f"mode is '{mode}', but the index has no words")


def test_limits_are_those_of_the_settings(
    make_application: Callable[..., Any], small_searcher: Searcher
) -> None:
    limits = Limits(max_query_chars=5, max_top_k=3, max_batch_queries=1, max_body_bytes=40)
    ask = make_application(small_searcher, limits).ask
    assert len(ask("GET", "/search?q=12345").json()["hits"]) == 3
    check(ask("GET", "/search?q=123456"), 422, "q", "a text of 1 to 5 characters")
    check(ask("GET", "/search?q=a&top_k=4"), 422, "top_k", "a whole number from 1 to 3")
    two = ask("POST", "/search/batch", json={"queries": ["a", "b"]})
    check(two, 413, "queries", "a list of 1 to 1 texts")
    check(ask("POST", "/search", content=b"x" * 41), 413, None, "more than 40 bytes")
    fitting = b'{"query":"a"}'.ljust(40)
    assert ask("POST", "/search", content=fitting).status_code == 200


@pytest.mark.parametrize(
    "length_header", [b"Content-Length: 999999999", b"Transfer-Encoding: chunked"]
)
def test_a_large_body_is_refused_before_it_has_come(server: Any, length_header: bytes) -> None:
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        connection.sendall(b"POST /search HTTP/1.1\r\nHost: a\r\n" + length_header + b"\r\n\r\n")
        if b"chunked" in length_header:
            # Not the last chunk: the body never ends.
            connection.sendall(b"500000\r\n" + b" " * 0x500000 + b"\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_a_body_that_arrives_too_slowly_is_refused_and_delays_no_other_request(
    start_server: Callable[..., Any],
) -> None:
    server = start_server(threads=1, body_timeout_ms=300)
    address = urlsplit(server.url)
    slow = b"POST /search/batch HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n"
    with ExitStack() as stack, server.client() as client:
        connections = [
            stack.enter_context(socket.create_connection((address.hostname, address.port), 20))
            for _ in range(20)
        ]
        for connection in connections:
            connection.sendall(slow + b"{")
        # They are under way, and the only worker is free.
        assert client.post("/search", json={"query": "bread"}).status_code == 200
        dribbling = connections.pop()
        with pytest.raises(ConnectionError):
            any(dribbling.sendall(b" ") for _ in count())
        for connection in connections:
            answer = b""
            while received := connection.recv(1000):
                answer += received
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b"\r\nconnection: close\r\n" in answer
            assert b"the body had not come after 300 ms, which is the limit" in answer
        metrics = client.get("/metrics").text
    assert 'swiftlet_requests_total{route="/search/batch",status="408"} 20.0' in metrics
    assert 'swiftlet_rejected_total{reason="body-timeout"} 20.0' in metrics


def test_a_connection_without_a_request_in_time_is_closed(
    start_server: Callable[..., Any],
) -> None:
    server = start_server(threads=1, body_timeout_ms=300)
    address = urlsplit(server.url)
    with ExitStack() as stack:
        silent, unfinished, dribbling, empty = (
            stack.enter_context(socket.create_connection((address.hostname, address.port), 20))
            for _ in range(4)
        )
        # Its first request is answered, and the next one never ends.
        unfinished.sendall(b"GET /health/live HTTP/1.1\r\n\r\n")
        answer = b""
        while not answer.endswith(b'{"status":"alive"}'):
            answer += unfinished.recv(1000)
        unfinished.sendall(b"POST /search HT")
        with pytest.raises(ConnectionError):
            any(dribbling.sendall(b"\r\nX: " if at % 9 else b"GET / HTTP/1.1") for at in count())
        with pytest.raises(ConnectionError):
            any(empty.sendall(b"\r\n") for _ in count())
        assert silent.recv(1000) == b""
        answer = unfinished.recv(1000)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert answer.endswith(b"the head of the request had not come after 300 ms, which is the limit")


def test_a_service_about_to_stop_is_not_ready(
    make_application: Callable[..., Any], small_searcher: Searcher
) -> None:
    application = make_application(small_searcher)
    assert application.ask("GET", "/health/ready").json() == {"status": "ready"}
    application.state.drain()
    check(application.ask("GET", "/health/ready"), 503, None, "about to stop")
    assert application.ask("HEAD", "/health/live").status_code == 200


class FailingEncoder(OnnxEncoder):
    failure: Exception

    def embed(self, token_ids: Sequence[int]) -> Embeddings:
        raise self.failure


@pytest.fixture
def failing_searcher(small_searcher: Searcher) -> Searcher:
    return with_encoder(small_searcher, FailingEncoder.load(DEFAULT_ENCODER, verify=False))


@pytest.mark.parametrize(
    "failure", [RuntimeError("inner secret"), CorruptIndexError("inner secret")]
)
@pytest.mark.parametrize("body", [{"query": "mine"}, {"queries": ["mine", "mine"]}])
def test_after_an_unexpected_failure_the_client_gets_the_request_id_and_the_log_the_cause(
    make_application: Callable[..., Any],
    failing_searcher: Searcher,
    failure: Exception,
    body: dict[str, object],
    caplog: pytest.LogCaptureFixture,
) -> None:
    failing_searcher.encoder.failure = failure
    path = "/search" if "query" in body else "/search/batch"
    with caplog.at_level(logging.INFO):
        answer = make_application(failing_searcher, access_log=True).ask("POST", path, json=body)
    check(answer, 500, None, f"under the request id {answer.headers['x-request-id']}")
    assert "secret" not in answer.text
    assert "inner secret" in caplog.text
    assert answer.headers["x-request-id"] in caplog.text
    assert "mine" not in caplog.text


def test_every_error_of_a_request_has_one_status() -> None:
    assert kind_of(CorruptIndexError("x")).status == kind_of(ValueError("x")).status == 500
    names = {(kind.name, kind.status) for kind in PROBLEMS.values()}
    assert len(dict(names)) == len(names)
