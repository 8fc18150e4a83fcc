"""Bodies that nobody means well with: each gets its documented answer, and none is a 500."""

import gzip
import json
import time
from typing import Any
from urllib.parse import quote

import pytest
from pydantic_core import from_json

from service.problems import InvalidRequestError
from service.reading import RequestReader
from service.schemas import Limits, SearchRequest
from tests.service.attacker import ANSWERS, SEARCH, Attacker, read_problem


@pytest.mark.parametrize("route", ANSWERS)
@pytest.mark.parametrize(
    "body",
    {
        "deep lists": b"[" * 100_000 + b"]" * 100_000,
        "deep objects": b'{"query":' * 100_000 + b"1" + b"}" * 100_000,
        "open lists": b"[" * 1_000_000,
        "deep in a field": b'{"query":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "blanks": b" " * 1_000_000,
        "NUL": b"\0" * 1000,
        "NUL in a text": b'{"query":"a\0b"}',
        "NUL after it": b"{}\0",
        "line break in a text": b'{"query":"a\nb"}',
        "half of UTF-8": b'{"query":"\xf0\x9f\x98"}',
        "overlong UTF-8": b'{"query":"\xc0\x80"}',
        "a surrogate in UTF-8": b'{"query":"\xed\xa0\x80"}',
        "UTF-16": '{"query":"a"}'.encode("utf-16"),
        "UTF-32": '{"query":"a"}'.encode("utf-32-le"),
        "byte order mark": b'\xef\xbb\xbf{"query":"a"}',
        "Infinity": b'{"query":"a","top_k":Infinity}',
        "hexadecimal": b'{"query":"a","top_k":0x10}',
        "leading zero": b'{"query":"a","top_k":010}',
        "half a number": b'{"query":"a","top_k":1e}',
        "comment": b'{"query":"a"/**/}',
        "comma": b'{"query":"a",}',
        "apostrophes": b"{'query':'a'}",
        "two": b'{"query":"a"}{"query":"b"}',
        "form": b"query=bread&top_k=10",
        "compressed": gzip.compress(SEARCH),
    }.items(),
    ids=lambda case: case[0],
)
def test_what_is_not_json_is_said_not_to_be(
    attacker: Attacker, route: str, body: tuple[str, bytes]
) -> None:
    answer = attacker.post(route, body[1], b"Content-Type: application/json")
    assert answer.status == 400
    assert read_problem(answer)["detail"].startswith("the body is not JSON: ")


@pytest.mark.parametrize("route", ANSWERS)
@pytest.mark.parametrize(
    "body", ["[]", "null", '"bread"', "1", "true", "1e400", "-" + "9" * 5000, r'"\ud800"', "[{}]"]
)
def test_json_that_is_no_object_is_said_to_be_none(
    attacker: Attacker, route: str, body: str
) -> None:
    answer = attacker.post(route, body.encode())
    assert answer.status == 422
    assert read_problem(answer)["detail"] == "the body is not a JSON object"


@pytest.mark.parametrize("field", ["top_k", "timeout_ms"])
@pytest.mark.parametrize(
    "number",
    [
        *("1e400", "-1e400", "1e-400", "1e99999999999", "-0", "1E1", "0.1", "1." + "0" * 5000),
        *("9" * 5000, "-" + "9" * 5000, str(2**63), str(-(2**64))),
    ],
    ids=lambda number: number[:20],
)
def test_a_number_out_of_all_range_names_its_field(
    attacker: Attacker, field: str, number: str
) -> None:
    for route, start in (("/search", '"query":"a"'), ("/search/batch", '"queries":["a"]')):
        answer = attacker.post(route, f'{{{start},"{field}":{number}}}'.encode())
        assert (answer.status, read_problem(answer)["field"]) == (422, field)
    by_link = attacker.send("GET", f"/search?q=a&{field}={number}")
    attacker.documented("/search", "get", by_link)
    assert (by_link.status, read_problem(by_link)["field"]) == (422, field)


@pytest.mark.parametrize(
    ("route", "body", "status", "field"),
    [
        ("/search", r'{"query":"a\ud800b"}', 422, "query"),
        ("/search", r'{"query":"\udc00\ud800"}', 422, "query"),
        ("/search/batch", r'{"queries":["a","\udfff"]}', 422, "queries[1]"),
        ("/v1/embeddings", r'{"input":"\ud83d"}', 422, "input[0]"),
        ("/search", r'{"query":"a\u0000"}', 422, "query"),
        ("/search/batch", r'{"queries":["\u0000"]}', 422, "queries[0]"),
        ("/search", '{"query":"%s"}' % (" " * 1_000_000), 422, "query"),
        ("/search", '{"query":"%s"}' % ("\u3000" * 10_000), 422, "query"),
        ("/search", '{"query":"%s"}' % ("😀" * 10_001), 422, "query"),
        ("/search", '{"query":' + "[" * 150 + "]" * 150 + "}", 422, "query"),
        ("/search", '{"query":' * 150 + "1" + "}" * 150, 422, "query"),
        ("/search/batch", '{"queries":[[],[],"a"]}', 422, "queries[0]"),
        ("/search/batch", '{"queries":[%s1]}' % ("1," * 1_000_000), 413, "queries"),
        ("/search/batch", '{"queries":{"0":"a"}}', 422, "queries"),
        ("/v1/embeddings", '{"input":"a","dimensions":1e400}', 422, "dimensions"),
        ("/v1/embeddings", '{"input":"a","dimensions":%s}' % ("9" * 5000), 422, "dimensions"),
        ("/v1/embeddings", '{"input":"a","encoding_format":"\u202efloat"}', 422, "encoding_format"),
        ("/search", '{"query":"a","query\u200b":"b"}', 422, "query\u200b"),
        ("/search", '{"query":"a","__proto__":{}}', 422, "__proto__"),
        ("/search", '{"query":"a","%s":1}' % ("k" * 1_000_000), 422, "k" * 24 + "…"),
        ("/admin/reload", '{"index":"/etc/passwd"}', 422, "index"),
        ("/admin/reload", r'{"\ud800":1}', 422, "?"),
        ("/search", '{"query":"%s"}' % ("a" * 5_000_000), 413, None),
    ],
    ids=lambda value: str(value)[:40].encode("ascii", "backslashreplace").decode(),
)
def test_a_hostile_value_is_refused_by_the_name_of_its_field(
    attacker: Attacker, route: str, body: str, status: int, field: str | None
) -> None:
    answer = attacker.post(route, body.encode())
    assert (answer.status, read_problem(answer).get("field")) == (status, field)


def test_of_two_fields_with_one_name_the_last_holds(attacker: Attacker) -> None:
    twice = attacker.post("/search", b'{"query":"chess","top_k":3,"query":"bread","top_k":10}')
    assert twice.body == attacker.post("/search", SEARCH).body
    assert attacker.post("/search", b'{"query":"bread","query":1}').status == 422


@pytest.mark.parametrize(
    "text",
    {
        "right to left": "\u202ebread\u202c \u200fخبز\u200e لحم",
        "emoji": "🍞👩‍🍳🏳️‍🌈🇨🇭👍🏽",
        "many accents": "b" + "\u0301\u0489" * 2000,
        "byte order mark": "\ufeffbread\ufffe",
        "not a character": "\ufdd0bread\uffff",
        "controls": "bread\x01\x1b[31m\x7f\x85\u2028",
        "tags": "<script>alert(1)</script>';--",
        "longest": "\U0010ffff" * 10_000,
        **{f"plane {plane}": chr(plane * 0x10000 + 0x1234) for plane in range(17)},
        **{f"end of plane {plane}": chr(plane * 0x10000 + 0xFFFF) for plane in range(17)},
    }.items(),
    ids=lambda case: case[0],
)
def test_any_text_is_searched_and_embedded_the_same_by_every_way(
    attacker: Attacker, text: tuple[str, str]
) -> None:
    query = text[1]
    raw, escaped = (json.dumps(query, ensure_ascii=ascii_only) for ascii_only in (False, True))
    found = attacker.post("/search", f'{{"query":{raw}}}'.encode())
    assert found.status == 200
    assert found.body == attacker.post("/search", f'{{"query":{escaped}}}'.encode()).body
    batch = json.loads(attacker.post("/search/batch", f'{{"queries":[{escaped}]}}'.encode()).body)
    assert batch["results"] == [{"hits": json.loads(found.body)["hits"]}]
    if len(quote(query)) < 60_000:  # a longer request line is not read
        by_link = attacker.send("GET", f"/search?q={quote(query)}")
        assert attacker.documented("/search", "get", by_link).body == found.body
    embedded = attacker.post("/v1/embeddings", f'{{"input":{raw}}}'.encode())
    assert (
        embedded.body == attacker.post("/v1/embeddings", f'{{"input":[{escaped}]}}'.encode()).body
    )


@pytest.mark.parametrize(
    "header",
    [
        *(b"", b"text/plain", b"application/xml", b"application/x-www-form-urlencoded"),
        *(b"multipart/form-data; boundary=x", b"application/json; charset=utf-16"),
        *(b"\xff\xfe", b"a" * 60_000),
    ],
    ids=lambda header: repr(header[:20]),
)
def test_json_is_json_whatever_it_is_called(attacker: Attacker, header: bytes) -> None:
    answer = attacker.post("/search", SEARCH, b"Content-Type: " + header)
    assert (answer.status, answer.body) == (200, attacker.post("/search", SEARCH).body)


def test_a_body_of_a_hundred_thousand_mistakes_costs_little_more_than_to_parse_it() -> None:
    body = json.dumps(dict.fromkeys(map(str, range(100_000)), 1)).encode()
    reader = RequestReader(SearchRequest, Limits())

    def seconds(function: Any, argument: Any) -> float:
        began = time.process_time()
        function(argument)
        return time.process_time() - began

    def refuse(fields: dict[str, int]) -> None:
        with pytest.raises(InvalidRequestError, match="there is no field 0"):
            reader._validate(fields)

    to_parse = min(seconds(from_json, body) for _ in range(3))
    fields = from_json(body)
    assert min(seconds(refuse, fields) for _ in range(3)) < to_parse
