"""Hostile transfers, headers, methods and addresses; no answer is a 500."""

import re
import socket
from contextlib import suppress
from urllib.parse import quote, urlsplit

import pytest

from tests.polling import wait_until
from tests.service.attacker import SEARCH, read_problem


def test_a_body_may_come_in_pieces(attacker):
    whole = attacker.post("/search", SEARCH).body
    chunked = b"Transfer-Encoding: chunked"
    pieces = b"".join(b"1;name=value\r\n%c\r\n" % byte for byte in SEARCH)
    for end in (b"0\r\n\r\n", b"0000\r\nTrailer: x\r\n\r\n"):
        assert attacker.post("/search", pieces + end, chunked).body == whole
    assert attacker.post("/search", SEARCH, b"Expect: 100-continue").body == whole
    assert attacker.post("/search", b"0\r\n\r\n", chunked).status == 400


@pytest.mark.parametrize("piece", [b"X: a\r\n" * 10_000, b"a" * 60_000], ids=["lines", "line"])
@pytest.mark.parametrize("request_line", [b"GET /health/live", b"POST /search", b"GET /nothing"])
@pytest.mark.parametrize("end", [b"0\r\nX: ", b"1;"], ids=["trailers", "extension"])
def test_lines_after_a_body_that_do_not_end_cost_nothing(attacker, request_line, end, piece):
    """uvicorn would keep all of them, for a client without a key."""
    address, sent = urlsplit(attacker.url), 0
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(
            request_line + b" HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + end
        )
        with suppress(ConnectionError):
            while sent < 100_000_000:
                connection.sendall(piece)
                sent += len(piece)
    assert sent < 100_000_000  # what the sockets take is little


def test_lines_after_a_body_are_no_headers(attacker):
    key = f"Authorization: Bearer {attacker.keys['search']}\r\n".encode()
    head = b"POST /search HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    for lines in (b"", key):
        answer = attacker.exchange(head + b"11\r\n" + SEARCH + b"\r\n0\r\n" + lines + b"\r\n")
        assert answer is not None
        assert answer.status == 401


def test_a_length_with_thousands_of_zeros_before_it_is_read(attacker):
    key = f"Authorization: Bearer {attacker.keys['search']}\r\n".encode()
    length = b"Content-Length: " + b"0" * 5_000 + b"%d\r\n\r\n" % len(SEARCH)
    head = b"POST /search HTTP/1.1\r\nHost: a\r\n" + key
    answer = attacker.exchange(head + length + SEARCH)
    assert answer is not None
    assert answer.status == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"Content-Length: 1000\r\n\r\n" + SEARCH,
        b"Transfer-Encoding: chunked\r\n\r\n3\r\n{}",
        b"Content-Length: 9",
    ],
)
def test_a_client_that_leaves_before_the_end_of_its_body_is_forgotten(
    attacker, locked_server, sent
):
    series = 'swiftlet_requests_total{route="/admin/reload",status="499"}'
    before = locked_server.value(series)
    key = f"Authorization: Bearer {attacker.keys['admin']}\r\n".encode()
    head = b"POST /admin/reload HTTP/1.1\r\nHost: a\r\n" + key
    assert attacker.exchange(head + sent, then_leave=True) is None
    if b"\r\n\r\n" in sent:
        wait_until(lambda: locked_server.value(series) == before + 1)


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /search HTTP/1.1\r\nContent-Length: 17\r\nContent-Length: 3\r\n\r\n" + SEARCH,
        b"POST /search HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /search HTTP/1.1\r\nContent-Length: 1e3\r\n\r\n",
        b"POST /search HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /search HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST /search HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /search HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 17 + b"\r\n",
        b"BREW /search HTTP/1.1\r\n\r\n",
        b"get /search HTTP/1.1\r\n\r\n",
        b"A" * 1_000_000,
        b"GET /documents/a\0b HTTP/1.1\r\n\r\n",
        b"GET /documents/\xff HTTP/1.1\r\n\r\n",
        b"GET /info HTTP/1.1\r\nX: a\0b\r\n\r\n",
        b"GET /info HTTP/1.1\r\nX : a\r\n\r\n",
        b"GET /info HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300),
    ],
    ids=lambda sent: repr(sent[:60]),
)
def test_bytes_that_are_not_http_get_a_plain_400(attacker, sent):
    answer = attacker.exchange(sent)
    assert answer is not None
    assert answer.is_plain(400)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /search?q=" + b"%F0%9F%8D%9E" * 10_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 20_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nCookie: " + b"a" * 10_000_000,
        b"GET / HTTP/1.1\r\n" + b"a" * 65_536,
    ],
    ids=lambda head: repr(head[:30]),
)
def test_a_head_that_is_too_long_is_refused(attacker, head):
    answer = attacker.exchange(head)
    assert answer is not None
    assert answer.is_plain(431)
    assert answer.body == b"the head of the request is longer than 65536 bytes"


def test_a_head_may_be_as_long_as_the_limit(attacker):
    head = b"GET /health/live HTTP/1.1\r\nConnection: close\r\nX: "
    filled = head + b"a" * (65_536 - len(head) - 4) + b"\r\n\r\n"
    assert len(filled) == 65_536
    answer = attacker.exchange(filled)
    assert answer is not None
    assert answer.status == 200
    answer = attacker.exchange(filled.replace(b"X: ", b"X: a"))
    assert answer is not None
    assert answer.is_plain(431)


@pytest.mark.parametrize(
    "header",
    [
        b"X: " + b"a" * 60_000,
        b"a" * 60_000 + b": x",
        b"\r\n".join(b"X-%d: a" % number for number in range(5_000)),
        b"Cookie: " + b"a=b;" * 15_000,
        b"X-Request-Id: " + b"a" * 60_000,
        b"X-Request-Id: \xff\xfe",
        b"Traceparent: 00-zz",
        b"Accept: " + b"\xff" * 1000,
        b"Range: bytes=-1",
        b"Origin: null\r\nAccess-Control-Request-Method: \xff",
    ],
    ids=lambda header: repr(header[:30]),
)
def test_a_search_is_answered_whatever_its_headers(attacker, header):
    answer = attacker.post("/search", SEARCH, header)
    assert answer.body == attacker.post("/search", SEARCH).body
    assert re.fullmatch("[0-9a-f]{16}", answer.headers["x-request-id"])


@pytest.mark.parametrize("key", [b"a" * 60_000, b"\xff\xfe", b"\xc3\xa4", b"", b"a b", b"\t"])
def test_a_hostile_key_is_wrong(attacker, key):
    for route, body in (("/search", SEARCH), ("/admin/reload", b"")):
        answer = attacker.post(route, body, b"Authorization: Bearer " + key)
        assert answer.status in {401, 403}


@pytest.mark.parametrize(
    "method",
    [
        *("CONNECT", "COPY", "DELETE", "LINK", "M-SEARCH", "OPTIONS", "PATCH", "PROPFIND"),
        *("PURGE", "PUT", "QUERY", "TRACE"),
    ],
)
def test_a_method_that_the_route_does_not_take_is_refused_with_the_allowed_ones(attacker, method):
    paths = attacker.document["paths"]
    for path, methods in paths.items():
        # Any path below /documents may be the id of a document.
        others = paths["/documents/{document_id}"] if "/documents/" in path else {}
        if method.lower() in methods | others:
            continue
        answer = attacker.send(method, path.replace("{document_id}", "bread-1"))
        assert answer.status == 405
        assert read_problem(answer)["detail"].startswith(f"the method is {method}; ")
        allowed = {name.upper() for name in methods} | ({"HEAD"} if "get" in methods else set())
        assert set(answer.headers["allow"].split(", ")) == allowed
    assert attacker.send(method, "/nothing").status == 404


@pytest.mark.parametrize(
    "document_id",
    [
        *("a%00b", "%00", "%2500", "%ff", "%", "%zz", "%ED%A0%80", "%22%7D", "a#b", "a?q=%00"),
        *("..", "../../etc/passwd", "%2e%2e/%2e%2e/a"),
        *("a" * 60_000, "%F0%9F%8D%9E" * 5000, "%E2%80%AE" * 100),
    ],
    ids=lambda document_id: document_id[:30],
)
def test_no_document_has_a_hostile_id(attacker, document_id):
    answer = attacker.send("GET", f"/documents/{document_id}")
    attacker.documented("/documents/{document_id}", "get", answer)
    assert answer.status == 404
    assert "no document has the id" in read_problem(answer)["detail"]


@pytest.mark.parametrize(
    "path",
    [
        *("/nothing", "/search/", "/search%00", "//search", "/search/.", "/SEARCH"),
        *("*", "/%ff", "/\u202e" * 100),
        *("/page/../../etc/passwd", "/page/style.css%00", "/documents/%0aSet-Cookie:a=b"),
        "/" * 60_000,
    ],
    ids=lambda path: ascii(path[:30]),
)
def test_no_route_has_a_hostile_path(attacker, path):
    answer = attacker.send("GET", quote(path, safe="/%*:="))
    assert answer.status == 404
    assert read_problem(answer)["detail"].startswith("no route has this path")


def pipelined(url: str, requests: int, padding: bytes = b"") -> bytes:
    """All that the service answers to `requests` sent ahead over one connection."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=100) as connection:
        request = b"GET /health/live HTTP/1.1\r\nHost: service\r\nX: %b\r\n\r\n" % padding
        last = b"GET /health/ready HTTP/1.1\r\nHost: service\r\nConnection: close\r\n\r\n"
        answers = bytearray()
        with suppress(ConnectionError):
            connection.sendall((requests - 1) * request + last)
            while received := connection.recv(1 << 16):
                answers += received
        return bytes(answers)


def test_requests_that_are_sent_ahead_are_answered_in_order(attacker):
    answers = pipelined(attacker.url, 300, b"a" * 500)  # together longer than one head may be
    assert answers.count(b"HTTP/1.1 ") == answers.count(b"HTTP/1.1 200") == 300
    assert answers.count(b'"alive"') == 299
    assert b'"ready"' in answers[answers.rindex(b"HTTP/1.1") :]


def test_a_connection_with_very_many_requests_sent_ahead_is_ended(attacker):
    """Each of them would wait in memory: 3 MB of such requests once took 180 MB."""
    assert pipelined(attacker.url, 80_000).count(b"HTTP/1.1 200") < 80_000
    assert pipelined(attacker.url, 1).count(b"HTTP/1.1 200") == 1
