"""A client that sends raw bytes, and checks the answers against the OpenAPI document."""

import json
import socket
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPResponse, RemoteDisconnected
from typing import Any
from urllib.parse import urlsplit

import httpx

from service.wire.problems import Problem
from service.wire.schemas import BatchAnswer, EmbeddingsAnswer, ReloadAnswer, SearchAnswer

SEARCH = b'{"query":"bread"}'
ANSWERS = {
    "/search": SearchAnswer,
    "/search/batch": BatchAnswer,
    "/v1/embeddings": EmbeddingsAnswer,
    "/admin/reload": ReloadAnswer,
}
"""The routes that take a body, and the answer of each."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def is_plain(self, status: int) -> bool:
        """Whether it is the answer that docs/http.md documents for requests without a route."""
        return self.status == status and self.headers["content-type"].startswith("text/plain")


@dataclass(frozen=True)
class Attacker:
    """Sends raw bytes, and checks the answers against the document."""

    url: str
    keys: dict[str, str]

    @cached_property
    def document(self) -> dict[str, Any]:
        return httpx.get(f"{self.url}/openapi.json", timeout=100).json()

    def exchange(self, sent: bytes, *, then_leave: bool = False) -> Answer | None:
        """The answer; None if the connection ends without one."""
        address = urlsplit(self.url)
        with socket.create_connection((address.hostname, address.port), timeout=100) as connection:
            with suppress(OSError):  # the service may answer before it has read all bytes
                connection.sendall(sent)
            if then_leave:
                connection.shutdown(socket.SHUT_WR)
            response = HTTPResponse(connection)
            try:
                response.begin()
            except RemoteDisconnected:
                return None
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, headers, response.read())

    def send(
        self, method: str, target: str | bytes, body: bytes | None = None, *headers: bytes
    ) -> Answer:
        target = target.encode() if isinstance(target, str) else target
        key = self.keys["admin" if target.startswith(b"/admin") else "search"]
        lines = [b"%b %b HTTP/1.1" % (method.encode(), target), b"Host: service", *headers]
        lines += [b"Connection: close"]
        if not any(header.startswith(b"Authorization:") for header in headers):
            lines += [f"Authorization: Bearer {key}".encode()]
        if body is not None and not any(b"chunked" in header for header in headers):
            lines += [b"Content-Length: %d" % len(body)]
        answer = self.exchange(b"\r\n".join([*lines, b"", body or b""]))
        assert answer is not None
        return answer

    def documented(self, route: str, method: str, answer: Answer) -> Answer:
        """The answer, checked against the document; a problem is parsed too."""
        described = self.document["paths"][route][method.lower()]["responses"][str(answer.status)]
        (media_type,) = described["content"]
        assert answer.headers["content-type"].split(";")[0] == media_type
        assert {name.lower() for name in described["headers"]} <= set(answer.headers)
        if answer.status != 200:
            read_problem(answer)
        return answer

    def post(self, route: str, body: bytes, *headers: bytes) -> Answer:
        answer = self.documented(route, "post", self.send("POST", route, body, *headers))
        if answer.status == 200:
            ANSWERS[route].model_validate_json(answer.body, strict=True)
        return answer

    def refused(self, route: str, body: str, status: int, field: str | None, sentence: str) -> None:
        is_refused(self.post(route, body.encode()), status, field, sentence)


def read_problem(answer: Answer) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/problem+json"
    problem = Problem.model_validate_json(answer.body, strict=True).model_dump(exclude_unset=True)
    assert problem == json.loads(answer.body)
    assert problem["status"] == answer.status != 500
    assert problem["request_id"] == answer.headers["x-request-id"]
    assert len(problem["detail"]) < 250
    return problem


def is_refused(answer: Answer, status: int, field: str | None, sentence: str) -> None:
    """Check that it is one sentence, which names the field."""
    problem = read_problem(answer)
    assert (answer.status, problem.get("field")) == (status, field)
    assert sentence in problem["detail"]
