"""Servers that answer anything: one sentence each, without the password, and never without end."""

import base64
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

import pytest

from swiftlet.corpora.vector_sources import elastic, open_vectors
from swiftlet.corpora.vector_sources.place import parse_place
from swiftlet.errors import CollectionError, InvalidArgumentError

PASSWORD = "hunter2secret"
MAPPING = {"i": {"mappings": {"properties": {"v": {"type": "dense_vector"}}}}}
HITS = [{"_id": "a", "_source": {"v": [1, 2]}}, {"_id": "b", "_source": {"v": [2, 1]}}]
Answer = Callable[[bytes], Iterator[bytes]]


def of(value: object, status: str = "200 OK", head: str = "") -> Answer:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    # One request a connection: else the client may send the next one as this server closes.
    head += f"Connection: close\r\nContent-Length: {len(content)}\r\n"
    return lambda _: iter([f"HTTP/1.1 {status}\r\n{head}\r\n".encode(), content])


def page(hits: list[Any]) -> Answer:
    return of({"_scroll_id": "s", "hits": {"hits": hits}})


def raw(*parts: bytes) -> Answer:
    return lambda _: iter(parts)


def endless(*start: bytes, again: bytes) -> Answer:
    def pieces(_: bytes) -> Iterator[bytes]:
        yield from start
        while True:
            yield again

    return pieces


@contextmanager
def server(**others: Answer) -> Iterator[tuple[str, list[bytes]]]:
    """The address of an index of two rows, and the heads of what it was asked."""
    asked: list[bytes] = []
    stopped = threading.Event()
    usual = {
        "mapping": of(MAPPING), "count": of({"count": 2}), "root": of({"version": {}}),
        "search": page(HITS), "scroll": page([]),
    }  # fmt: skip

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            head = b"".join(iter(self.rfile.readline, b"\r\n"))
            asked.append(head)
            # A body that is not read resets the connection, and the answer may be lost with it.
            self.rfile.read(int(re.search(rb"(?i)content-length: *(\d+)|$", head)[1] or 0))
            path = re.sub(r"\?.*", "", head.split()[1].decode()).rpartition("/")[2].lstrip("_")
            path = path or "root"
            for piece in {**usual, **others}[path](head):
                if stopped.wait(0.01 if len(piece) == 1 else 0):
                    return
                try:
                    self.wfile.write(piece)
                except OSError:
                    return

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as found:
        found.daemon_threads = True
        thread = threading.Thread(target=found.serve_forever, args=[0.05], daemon=True)
        thread.start()
        try:
            yield f"elasticsearch://me:{PASSWORD}@127.0.0.1:{found.server_address[1]}/i", asked
        finally:
            stopped.set()
            found.shutdown()
            thread.join()


def refused(address: str) -> str:
    with pytest.raises((CollectionError, InvalidArgumentError)) as found:
        [*open_vectors(address).blocks()]
    sentence = f"{found.value}"
    assert PASSWORD not in sentence
    assert sentence.isprintable()
    return sentence


def test_the_stand_in_itself_gives_two_rows():
    with server() as (address, _):
        assert [len(each.rows) for each in open_vectors(address).blocks()] == [2]


@pytest.mark.parametrize("part", ["mapping", "search"])
def test_a_redirect_is_not_followed_and_takes_the_password_nowhere(part):
    for target in ("http://localhost:{}/steal", "file:///etc/passwd", "ftp://127.0.0.1:{}/x"):
        with server() as (other, stolen):
            to = target.format(re.findall(r":(\d+)/", other)[0])
            with server(**{part: of(b"", "302 Found", f"Location: {to}\r\n")}) as (address, _):
                sentence = refused(address)
            assert f"with 302, which sends on to '{to}'" in sentence
            assert not stolen


WRONG: dict[str, Any] = {
    "list": [], "null": None, "text": "x", "deep": b"[" * 100_000, "no object": {"i": 5},
    "properties": {"i": {"mappings": {"properties": [1]}}},
    "metric": {"i": {"mappings": {"properties": {
        "v": {"type": "dense_vector", "similarity": [1]}}}}},
    "page": b"<html>",
}  # fmt: skip


WRONG_PARTS: list[tuple[str, Any]] = [
    *(("mapping", value) for value in WRONG.values()),
    ("count", {}), ("count", []), ("count", {"count": "x"}), ("count", {"count": None}),
    ("root", []), ("root", {"version": "x"}), ("root", {"version": {"number": "a.b"}}),
    ("search", {}), ("search", {"_scroll_id": "x"}), ("search", {"hits": {"hits": HITS}}),
    ("search", {"_scroll_id": "x", "hits": {"hits": ["a"]}}),
    ("search", {"_scroll_id": "x", "hits": {"hits": [{"_id": "a"}]}}),
    ("search", {"_scroll_id": "x", "hits": {"hits": [{"_id": "a", "_source": [1]}]}}),
]  # fmt: skip


@pytest.mark.parametrize(("part", "value"), WRONG_PARTS)
def test_an_answer_of_another_form_is_one_sentence(part, value):
    with server(**{part: of(value)}) as (address, _):
        assert re.search("does not answer as Elasticsearch|cannot be read", refused(address))


@pytest.mark.parametrize(
    "content",
    [
        b"garbage\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)  # fmt: skip
def test_what_is_no_http_is_one_sentence(content):
    with server(mapping=raw(content)) as (address, _):
        assert "cannot be read: " in refused(address)


def test_an_answer_without_end_is_left_at_its_bound(monkeypatch):
    monkeypatch.setattr(elastic, "LARGEST_ANSWER", 1_000_000)
    with server(mapping=endless(b"HTTP/1.1 200 OK\r\n\r\n[", again=b"1," * 9_999)) as (address, _):
        assert "answers with more than 1,000,000 bytes" in refused(address)


@pytest.mark.parametrize(
    "answer",
    [
        endless(b"HTTP/1.1 200 OK\r\n\r\n[", again=b" "),
        endless(b"HTTP/1.1 200 OK\r\nX: ", again=b"a"),
        endless(again=b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["body", "head", "continue"],
)
def test_an_answer_that_drips_is_left_when_it_is_due(answer, monkeypatch):
    monkeypatch.setattr(elastic, "ANSWER_SECONDS", 0.2)
    with server(mapping=answer) as (address, _):
        assert "has not answered within 0.2 s" in refused(address)


def test_more_rows_than_were_counted_end_the_reading():
    many = page(HITS * 500)
    with server(search=many, scroll=many) as (address, asked):
        assert "1,000 rows were read where 2 were counted" in refused(address)
        assert len(asked) < 10


@pytest.mark.parametrize("status", ["400 Bad", "302 Found"])
def test_a_server_that_repeats_the_request_shows_no_password(status):
    coded = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    said = f"{PASSWORD} {coded}"

    def echo(head: bytes) -> Iterator[bytes]:
        answer = of(
            {"error": {"reason": f"{said} {head.decode()}"}}, status, f"Location: {said}\r\n"
        )
        return answer(head)

    with server(mapping=echo) as (address, asked):
        sentence = refused(address)
        assert coded.encode() in asked[0]
    assert coded[:12] not in sentence
    with server(mapping=raw(f"{said}\r\n\r\n".encode())) as (address, _):
        assert coded[:12] not in refused(address)


@pytest.mark.parametrize(
    "address",
    [
        "Elasticsearch://me:{}@127.0.0.1:9/i", "es8://me:{}@127.0.0.1:9/i", "http://me:{}@h/i",
        "elasticsearch://me:{}/x@127.0.0.1:9/i", "elasticsearch://me:{}?x@127.0.0.1:9/i",
        "elasticsearch://me:{}#x@127.0.0.1:9/i", "elasticsearch://me:{}@x@127.0.0.1:9/i",
        "elasticsearch://me:{}@127.0. 0.1:9/i", "elasticsearch://me:{}@127.0.0.1:port/i",
        "elasticsearch://me:{}@127.0.0.1:99999/i", "elasticsearch://me:{}@[::1/i",
        "elasticsearch://me:{}@127.0.0.1:9\r\nX: y/i", "elasticsearch://me:{}@127.0.0.1:9/i\nj",
        "elasticsearch://me:{}", "elasticsearch://me:{}\n@127.0.0.1:9/i",
        "postgresql://me:{}%zz@127.0.0.1:9/db?table=x", "postgresql://me:{}/x@127.0.0.1:9/db",
        "postgresql://me:{}@127.0.0.1:9/db?table=x&bogus=1",
        "postgresql://127.0.0.1:9/db?user=me&password={}&bogus=1",
    ],
)  # fmt: skip
def test_no_way_to_write_an_address_shows_its_password(address):
    refused(address.format(PASSWORD))


def test_a_token_with_a_line_break_is_named_by_its_variable(monkeypatch):
    monkeypatch.setenv("SWIFTLET_INDEX_TOKEN", f"{PASSWORD}\n")
    assert "SWIFTLET_INDEX_TOKEN, has a character" in refused("elasticsearch://127.0.0.1:9/i")


def test_a_password_may_have_the_marks_of_an_address():
    place = parse_place("Elasticsearch+https://me:a/b?c#d@e@[::1]:9200/docs?x=1")
    assert (place.scheme, place.encrypted, place.user) == ("elasticsearch", True, "me:a/b?c#d@e")
    assert (place.host, place.path, place.options) == ("[::1]:9200", "docs", {"x": "1"})
    assert place.name == "elasticsearch+https://[::1]:9200/docs"
