import json
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import count

import httpx
import pytest

from service.wire.context import RequestContext
from service.wire.problems import (
    PROBLEMS,
    NotReadyError,
    ReloadRefusedError,
    WriteRefusedError,
    kind_of,
    problem_response,
)
from service.wire.requests import Limits
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import CorruptIndexError, StorageError, UnknownDocumentError
from swiftlet.search.searcher import Searcher
from swiftlet.types import Embeddings
from tests.service.attacker import is_refused
from tests.service.conftest import with_encoder

TEXTS = "a list of 1 to 64 texts is expected"
TEXT = "a text of 1 to 10000 characters, not all blank is expected"
ORDER = 'a field and its direction, such as "modified:desc" or "year:asc", is expected'
MILLISECONDS = "a whole number of milliseconds from 1 to 60000 is expected"
WHOLE = "a whole number from 1 to 1000 is expected"
MODES = '"hybrid", "dense" or "lexical" is expected'
SHARE = "a number from 0 to 1 is expected"
ONE_OR_MORE = "a text, or a list of 1 to 2048 texts is expected"
NUMBERS = "these are token numbers of another model's"
FIELDS = [f'"{number:x}":1' for number in range(64)]


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
    ("field", "value", "sentence"),
    [
        ("query", '""', f"query is empty; {TEXT}"),
        ("query", "null", f"query is null; {TEXT}"),
        ("query", '["a"]', f"query is a list; {TEXT}"),
        ("query", r'" \u3000\t"', "at least one character that is not blank"),
        ("query", '"%s"' % ("😀" * 10_001), f"has 10001 characters; {TEXT}"),
        ("query", r'"a\u0000"', "the query holds a NUL character"),
        ("query", r'"a\udfff"', f"half of a surrogate pair; {TEXT}"),
        ("top_k", "0", f"top_k is 0; {WHOLE}"),
        ("top_k", "1001", f"top_k is 1001; {WHOLE}"),
        ("top_k", "10.0", f"top_k is 10.0; {WHOLE}"),
        ("top_k", "true", f"top_k is true; {WHOLE}"),
        ("top_k", '"10"', f"top_k is a text; {WHOLE}"),
        ("top_k", "9" * 9000, f"is Infinity; {WHOLE}"),
        ("include_text", "1", "is 1; true or false is expected"),
        ("timeout_ms", "0", f"is 0; {MILLISECONDS}"),
        ("timeout_ms", "60001", f"is 60001; {MILLISECONDS}"),
        ("mode", '"x"', f'mode is "x"; {MODES}'),
        ("mode", '["dense"]', f"mode is a list; {MODES}"),
        ("weight", "1.5", f"weight is 1.5; {SHARE}"),
        ("weight", "-1", f"weight is -1; {SHARE}"),
        ("highlight", '"x"', 'is "x"; "words" or "sentence" is exp'),
        ("highlight", '"words","include_text":false', "include_text true"),
        ("highlight", '"sentence","top_k":51', "51 documents are asked for; at most 50 are highl"),
        ("fusion", '"sum"', 'is "sum"; "weighted" or "rrf" is exp'),
        ("fusion", '"rrf","offset":1', "which takes no offset"),
        ("fusion", '"rrf","weight":1', "which takes no weight"),
        ("offset", "-1", "offset is -1; a whole number from 0 to 10000"),
        ("offset", "10001", "offset is 10001; a whole number from 0"),
        ("min_score", '"1"', "min_score is a text; a number is exp"),
        ("filter", '"x"', "has 'x' where an object is expected"),
        ("filter", '{"topic":null}', "has the value null, but"),
        ("filter", '{"topic":[true,[null]]}', "the value [null], but"),
        ("filter", '{"kind":1}', "the filter names 'kind', but"),
        ("filter", '{"topic":1}', "'topic' with numbers, but its"),
        ("filter", r'{"\ud800":"\ud800"}', r"names '\ud800', but"),
        ("filter", '{"not":' * 50 + "1" + "}" * 50, "deep"),
        (
            "filter",
            '{"length":[' + "1," * 256 + "1]}",
            "has 257 values and conditions; at most 256",
        ),
        ("cursor", '"x"', 'cursor is "x"; the `next` of an answer is expected'),
        ("cursor", '"99999.x"', 'cursor is "99999.x"; the `next`'),
        (
            "cursor",
            '"7.01234567.0123456789abcdef"',
            "search; give it with the query, min_score, mode, weight, filter, fusion, rerank, embe",
        ),
        ("cursor", '"7.x","offset":7', "offset is 7, but a cursor has an offset of its own: g"),
        ("cursor", '"7.x","group_by":"topic"', "but groups have no pages: give either cursor"),
        ("cursor", '"7.x","fusion":"rrf"', 'fusion is "rrf", but its ranks have no pages'),
        ("offset", '7,"group_by":"topic"', "offset is 7, but groups have no pages: give"),
        ("group_by", '"colour"', "group_by is 'colour', but no document has a value of it"),
        ("group_by", '""', "group_by is empty; the name of a field of the metadata is expected"),
        ("sort", '"length"', f'sort is "length"; {ORDER}'),
        ("sort", '"length:up"', f'sort is "length:up"; {ORDER}'),
        ("sort", "3", f"sort is 3; {ORDER}"),
        ("sort", '"no:asc"', "sort names 'no', but no document that the search may find has a"),
        ("sort", '"no:asc"', "can be sorted by the fields ['length', 'topic']"),
        ("fusion", '"rrf","sort":"length:asc"', "which takes no sort"),
        ("sort", '"length:asc","group_by":"topic"', "sort is 'length:asc', but groups are not"),
        ("boost", '{"field":"no","half_value":1,"weight":1}', "boost names 'no', but no document"),
        ("group_size", '101,"group_by":"topic"', "so 10 groups have 1010 documents; at most"),
        ("timeout", "5", "the fields are query, top_k, offset, "),
        ("__proto__", "{}", "there is no field __proto__"),
        ("query\u200b", '"b"', "there is no field query"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_a_bad_value_of_a_search_is_refused_in_one_sentence(attacker, field, value, sentence):
    start = "" if field == "query" else '"query":"a",'
    attacker.refused("/search", f'{{{start}"{field}":{value}}}', 422, field, sentence)


@pytest.mark.parametrize(
    ("route", "body", "status", "field", "sentence"),
    [
        ("/search", r'{"query":"a\ud800","top_k":NaN}', 400, None, "the body is not JSON"),
        ("/search", r'{"a":"\ud800","b":' + "[" * 9000 + "]" * 9000 + "}", 400, None, "is not"),
        ("/search", "[" * 60_000, 400, None, "recursion limit"),
        ("/search", "{}", 422, "query", f"query is missing; {TEXT}"),
        ("/search", '{"query":' * 150 + "1" + "}" * 150, 422, "query", f"an object; {TEXT}"),
        ("/search", '{"query":"a","%s":5}' % ("k" * 60_000), 422, "k" * 24 + "…", "no field kkkk"),
        ("/search", r'{"query":"a","\ud800":5}', 422, None, "name holds half of a surrogate pair"),
        ("/search", '{"query":"%s"}' % ("a" * 5_000_000), 413, None, "the body has more than"),
        ("/search/batch", '{"queries":[]}', 422, "queries", f"is empty; {TEXTS}"),
        ("/search/batch", '{"queries":"a"}', 422, "queries", f"is a text; {TEXTS}"),
        ("/search/batch", '{"queries":{"0":"a"}}', 422, "queries", f"is an object; {TEXTS}"),
        ("/search/batch", '{"queries":[%s1]}' % ("1," * 1_500), 413, "queries", f"s; {TEXTS}"),
        ("/search/batch", '{"queries":["a",3]}', 422, "queries[1]", f"queries[1] is 3; {TEXT}"),
        ("/search/batch", '{"queries":[[],"a"]}', 422, "queries[0]", f"is a list; {TEXT}"),
        ("/search/batch", '{"queries":["a"," "]}', 422, "queries[1]", "]: the query is empty"),
        ("/search/batch", r'{"queries":["a","\udfff"]}', 422, "queries[1]", "surrogate pair"),
        ("/search/batch", r'{"queries":["a\u0000"]}', 422, "queries[0]", "NUL"),
        ("/search/batch", '{"queries":["a"],"filter":{"no":1}}', 422, "filter", "names 'no'"),
        ("/search/batch", '{"query":"a"}', 422, "query", "no field query"),
        ("/search/batch", '{"top_k":1}', 422, "queries", "queries is missing"),
        ("/search/batch", '{"queries":[%s"a"],"top_k":1000}' % ('"a",' * 63), 422, "top_k",
         "64 queries ask for 64000 documents; at most 10000"),
        ("/v1/embeddings", r'{"input":"\ud83d"}', 422, "input[0]", "surrogate pair"),
        ("/v1/embeddings", '{"input":"a","dimensions":1e400}', 422, "dimensions", "dimensions is"),
        ("/v1/embeddings", '{"input":"a","dimensions":%s}' % ("9" * 5000), 422, "dimensions", "is"),
        ("/v1/embeddings", '{"input":"a","encoding_format":"\u202efloat"}', 422, "encoding_format",
         "encoding_format is"),
        ("/v1/embeddings", '{"input":""}', 422, "input[0]", f"is empty; {TEXT}"),
        ("/v1/embeddings", '{"input":["a"," "]}', 422, "input[1]", "input[1]: the query is empty"),
        ("/v1/embeddings", '{"input":["a",1]}', 422, "input[1]", f"input[1] is 1; {TEXT}"),
        ("/v1/embeddings", '{"input":[1,2,3]}', 422, "input", f"input: {NUMBERS}"),
        ("/v1/embeddings", '{"input":[[1,2],[3]]}', 422, "input", f"input: {NUMBERS}"),
        ("/v1/embeddings", '{"input":[%s1]}' % ("[1,2,3]," * 9000), 413, None,
         "values, objects and lists; texts are expected, and no"),
        ("/v1/embeddings", '{"input":null}', 422, "input", f"is null; {ONE_OR_MORE}"),
        ("/v1/embeddings", '{"input":[]}', 422, "input", f"is empty; {ONE_OR_MORE}"),
        ("/v1/embeddings", '{"input":[%s"a"]}' % ('"a",' * 2048), 413, "input",
         f"input has 2049 entries; {ONE_OR_MORE}"),
        ("/v1/embeddings", '{"model":"any"}', 422, "input", "input is missing"),
        ("/v1/embeddings", '{"input":"a","encoding_format":"hex"}', 422, "encoding_format",
         'is "hex"; float or base64 is expected'),
        ("/v1/embeddings", '{"input":"a","model":5}', 422, "model",
         "model is 5; a text, which is ignored, is expected"),
        ("/v1/embeddings", '{"input":"a","top_k":3}', 422, "top_k",
         "there is no field top_k; the fields are input, model"),
        ("/search", f'{{"query":"a",{",".join(FIELDS[:-1])}}}', 422, "0", "there is no field 0"),
        ("/search", f'{{"query":"a",{",".join(FIELDS)}}}', 422, None,
         "the body has 65 fields; at most 64 are expected"),
        ("/admin/reload", '{"index":"/etc/passwd"}', 422, "index", "there is no field index"),
        ("/admin/reload", r'{"\ud800":1}', 422, None, "surrogate pair"),
    ],
    ids=lambda value: ascii(value)[:30],
)  # fmt: skip
def test_a_bad_body_is_refused_in_one_sentence(attacker, route, body, status, field, sentence):
    attacker.refused(route, body, status, field, sentence)


@pytest.mark.parametrize(
    ("path", "field", "sentence"),
    [
        ("/search?", "q", f"q is missing; {TEXT}"),
        ("/search?q=", "q", f"q is empty; {TEXT}"),
        ("/search?q=a%00", "q", "NUL"),
        ("/search?q=%ff", None, "the query string is not valid UTF-8"),
        ("/search?q=a&%FF=1", None, "the query string is not valid UTF-8"),
        ("/search?q=%ed%a0%80", None, "the query string is not valid UTF-8"),
        ("/search?q=a&q=b", "q", "q is given more than once"),
        ("/search?" + "&" * 10_000, None, "has 10001 parameters; at most 64 are expected"),
        ("/search?q=a&top_k=", "top_k", WHOLE),
        ("/search?q=a&top_k=%00", "top_k", WHOLE),
        ("/search?q=a&top_k=" + "[" * 50_000, "top_k", WHOLE),
        ("/search?q=a&top_k=1e1", "top_k", f"top_k is 10.0; {WHOLE}"),
        ("/search?q=a&top_k=1_0", "top_k", WHOLE),
        ("/search?q=a&include_text=yes", "include_text", "true or false is expected"),
        ("/search?q=a&include_text=%22true%22", "include_text", "true or false is expected"),
        ("/search?q=a&weight=", "weight", f'weight is ""; {SHARE}'),
        ("/search?q=a&filter=x", "filter", "the filter has 'x' where an object is expected"),
        ('/search?q=a&filter={"topic":', "filter", "where an object is expected"),
        ("/search?query=a", "q", "q is missing"),
        ("/search?q=a&timeout_ms=1s", "timeout_ms", MILLISECONDS),
        ("/search?q=a&timeout=5", "timeout", "there is no field timeout"),
        ("/search?q=a&" + "k" * 60_000 + "=1", "k" * 24 + "…", "there is no field kkkk"),
        ("/search?q=a&" + "&".join(f"p{n}=a" for n in range(63)), "p0", "there is no field p0"),
        ("/search?q=a&" + "&".join(f"p{n}=a" for n in range(64)), None, "has 65 parameters"),
        ("/facets?filter=", "filter", "the filter has '' where an object is expected"),
        ("/search?q=a&sort=length", "sort", f'sort is "length"; {ORDER}'),
        ('/facets?filter={"no":1}', "filter", "names 'no', but the documents have the fields"),
        ("/facets?filter={}&filter={}", "filter", "filter is given more than once"),
        (
            "/suggest?",
            "q",
            "q is missing; a text of 1 to 200 characters, not all blank is expected",
        ),
        (f"/suggest?q={'a' * 201}", "q", "q has 201 characters; a text of 1 to 200 characters"),
        ("/suggest?q=a&limit=21", "limit", "limit is 21; a whole number from 1 to 20 is expected"),
        ("/suggest?q=a&limit=x", "limit", 'limit is "x"; a whole number from 1 to 20 is expected'),
        ("/suggest?q=a&top_k=1", "top_k", "there is no field top_k; the fields are q, limit"),
        ("/facets?field=topic", "field", "there is no field field; the fields are filter"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_a_bad_link_is_refused_in_one_sentence(attacker, path, field, sentence):
    answer = attacker.send("GET", path)
    attacker.documented(path.partition("?")[0], "get", answer)
    is_refused(answer, 422, field, sentence)


@pytest.mark.parametrize("field", ["top_k", "timeout_ms"])
@pytest.mark.parametrize(
    "number",
    [
        *("1e400", "-1e400", "1e-400", "1e99999999999", "-0", "1E1", "0.1", "1." + "0" * 5000),
        *("9" * 5000, "-" + "9" * 5000, str(2**63), str(-(2**64))),
    ],
    ids=lambda number: number[:20],
)
def test_a_number_out_of_all_range_names_its_field(attacker, field, number):
    for route, start in (("/search", '"query":"a"'), ("/search/batch", '"queries":["a"]')):
        attacker.refused(route, f'{{{start},"{field}":{number}}}', 422, field, f"{field} is")
    by_link = attacker.send("GET", f"/search?q=a&{field}={number}")
    attacker.documented("/search", "get", by_link)
    is_refused(by_link, 422, field, f"{field} is")


@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_a_mode_that_the_index_does_not_have_is_refused(make_application, small_searcher, mode):
    without_words = with_encoder(small_searcher, small_searcher.encoder)
    answer = make_application(without_words).ask("GET", f"/search?q=bread&mode={mode}")
    check(answer, 422, "mode", f'mode is "{mode}", but the index has no words; "dense" is expect')


def test_limits_are_those_of_the_settings(make_application, small_searcher):
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
def test_a_large_body_is_refused_before_it_has_come(server, length_header):
    with server.connect() as connection:
        connection.sendall(b"POST /search HTTP/1.1\r\nHost: a\r\n" + length_header + b"\r\n\r\n")
        if b"chunked" in length_header:
            # Not the last chunk: the body never ends.
            connection.sendall(b"500000\r\n" + b" " * 0x500000 + b"\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_a_body_that_arrives_too_slowly_is_refused_and_delays_no_other_request(start_server):
    server = start_server(threads=1, body_timeout_ms=1000)
    slow = b"POST /search/batch HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n"
    with ExitStack() as stack, server.client() as client:
        connections = [stack.enter_context(server.connect()) for _ in range(20)]
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
            assert b"the body had not come after 1000 ms, which is the limit" in answer
    assert server.value('swiftlet_requests_total{route="/search/batch",status="408"}') == 20
    assert server.value('swiftlet_rejected_total{reason="body-timeout"}') == 20


def test_a_connection_without_a_request_in_time_is_closed(start_server):
    server = start_server(threads=1, body_timeout_ms=1000)
    with ExitStack() as stack:
        silent, unfinished, dribbling, empty = (
            stack.enter_context(server.connect()) for _ in range(4)
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
    assert answer.endswith(
        b"the head of the request had not come after 1000 ms, which is the limit"
    )


class FailingEncoder(OnnxEncoder):
    failure: Exception

    def embed(self, token_ids: Sequence[int]) -> Embeddings:
        raise self.failure


@pytest.fixture
def failing_searcher(small_searcher) -> Searcher:
    return with_encoder(small_searcher, FailingEncoder.load(DEFAULT_ENCODER, verify=False))


@pytest.mark.parametrize(
    "failure", [RuntimeError("inner secret"), CorruptIndexError("inner secret")]
)
@pytest.mark.parametrize("body", [{"query": "mine"}, {"queries": ["mine", "mine"]}])
def test_after_an_unexpected_failure_the_client_gets_the_request_id_and_the_log_the_cause(
    make_application, failing_searcher, failure, body, caplog
):
    failing_searcher.encoder.failure = failure
    path = "/search" if "query" in body else "/search/batch"
    with caplog.at_level(logging.INFO):
        answer = make_application(failing_searcher, access_log=True).ask("POST", path, json=body)
    check(answer, 500, None, f"under the request id {answer.headers['x-request-id']}")
    assert "secret" not in answer.text
    assert "inner secret" in caplog.text
    assert answer.headers["x-request-id"] in caplog.text
    assert "mine" not in caplog.text


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (StorageError("cannot write '/srv/a/x.sqlite': full"), "cannot write 'x.sqlite': full"),
        (WriteRefusedError("/srv/a/none is not a directory"), "none is not a directory"),
        (ReloadRefusedError("/srv/a/b: no; /srv/c is"), "b: no; c is"),
        (NotReadyError("milvus://host:1/a/b: away"), "milvus://host:1/a/b: away"),
        (UnknownDocumentError("/srv/a/b"), "no document has the id '/srv/a/b'"),
    ],
)
def test_folders_of_the_service_are_in_the_log_only(error, sentence, caplog):
    answer = problem_response(error, RequestContext("the-id", 0.0))
    assert json.loads(answer.body)["detail"] == sentence
    assert ("the-id was refused: " + str(error) in caplog.text) == (str(error) != sentence)


def test_every_error_of_a_request_has_one_status():
    assert kind_of(CorruptIndexError("x")).status == kind_of(ValueError("x")).status == 500
    names = {(kind.name, kind.status) for kind in PROBLEMS.values()}
    assert len(dict(names)) == len(names)
