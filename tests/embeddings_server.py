"""Small servers of OpenAI's API, which can be told to fail.

Embeddings are made by the encoder that ships, and messages by a function.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, TypeVar

from swiftlet.encoders.encoder import OnnxEncoder, load_encoder

Fault = Callable[["Handler"], None]
AnyServer = TypeVar("AnyServer", bound="EmbeddingsServer")


@cache
def shipped() -> OnnxEncoder:
    return load_encoder()


class EmbeddingsServer(ThreadingHTTPServer):
    """`faults` are its next answers, one each; `asked` has what it was asked, with the headers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.faults: list[Fault] = []
        self.asked: list[dict[str, Any]] = []
        self.ended = Event()
        self.change: Callable[[Any], Any] = lambda embeddings: embeddings

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1?model=small"

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        found = self.change(shipped().encode(body["input"]))
        data = [{"index": n, "embedding": each.tolist()} for n, each in enumerate(found)]
        # In another order, as the API allows.
        return {"object": "list", "data": data[::-1]}


class ChatServer(EmbeddingsServer):
    """`change` makes the answer of a model of what the user says."""

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        message = {"role": "assistant", "content": self.change(body["messages"][-1]["content"])}
        return {"object": "chat.completion", "choices": [{"index": 0, "message": message}]}


class Handler(BaseHTTPRequestHandler):
    server: EmbeddingsServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append({**body, "path": self.path, "headers": dict(self.headers)})
        if self.server.faults:
            self.server.faults.pop(0)(self)
            return
        self.send(200, json.dumps(self.server.answer(body)))

    def send(
        self, status: int, body: str, kind: str = "application/json", **headers: object
    ) -> None:
        content = body.encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), f"{value}")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", f"{len(content)}")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def answer(status: int, body: str, kind: str = "application/json", **headers: object) -> Fault:
    return lambda handler: handler.send(status, body, kind, **headers)


def embeddings(*rows: object) -> Fault:
    data = [{"index": n, "embedding": row} for n, row in enumerate(rows)]
    return answer(200, json.dumps({"data": data}))


def half(handler: Handler) -> None:
    """Close the connection in the middle of an answer."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"data": [')
    handler.close_connection = True


def hang(handler: Handler) -> None:
    """Answer when the test ends."""
    handler.server.ended.wait(100)
    handler.close_connection = True


def drip(handler: Handler) -> None:
    """Send a byte now and then until the test ends."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    while not handler.server.ended.wait(0.05):
        handler.wfile.write(b" ")
        handler.wfile.flush()
    handler.close_connection = True


def drip_of_head(handler: Handler) -> None:
    """Begin a head that does not end until the test ends."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    while not handler.server.ended.wait(0.05):
        handler.wfile.write(b"a")
        handler.wfile.flush()
    handler.close_connection = True


@contextmanager
def answering(kind: type[AnyServer] = EmbeddingsServer) -> Iterator[AnyServer]:  # type: ignore[assignment]
    with kind() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
            thread.join()
