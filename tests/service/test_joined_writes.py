"""The head of an answer leaves together with its body, and waits for none that does not come."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import uvloop

from service.wire.joined_writes import JoinedWrites

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"


def received_after(*steps: Callable[[JoinedWrites], None]) -> list[bytes]:
    """The bytes that the other end has received after each of `steps`."""

    async def take() -> list[bytes]:
        near, far = socket.socketpair()
        with far:
            far.setblocking(False)
            transport, _ = await asyncio.get_running_loop().create_connection(
                asyncio.Protocol, sock=near
            )
            joined, found = JoinedWrites(transport), []
            for step in steps:
                step(joined)
                for _ in range(10):
                    await asyncio.sleep(0)
                try:
                    found.append(far.recv(1000))
                except BlockingIOError:
                    found.append(b"nothing")
            transport.close()
            return found

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(take())


def write(data: bytes) -> Callable[[JoinedWrites], None]:
    return lambda joined: joined.write(data)


def test_a_head_waits_for_its_body() -> None:
    assert received_after(write(HEAD), write(b"body"), write(b"more")) == [
        b"nothing",
        HEAD + b"body",
        b"more",
    ]


def test_an_answer_that_another_one_follows_is_sent_at_once() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    assert received_after(write(interim), write(HEAD)) == [interim, b"nothing"]


def test_a_head_without_a_body_is_sent_when_the_answer_is_whole_or_the_connection_closes() -> None:
    assert received_after(write(HEAD), JoinedWrites.flush) == [b"nothing", HEAD]
    assert received_after(write(HEAD), JoinedWrites.close) == [b"nothing", HEAD]
    assert received_after(write(HEAD), write(HEAD)) == [b"nothing", HEAD]


def test_the_service_answers_in_one_piece_and_without_a_body_at_once(
    start_server: Callable[..., Any],
) -> None:
    address = urlsplit(start_server().url)
    with socket.create_connection((address.hostname, address.port), timeout=100) as connection:
        for _ in range(20):
            connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n")
            assert connection.recv(10_000).endswith(b'\r\n\r\n{"status":"alive"}')
            connection.sendall(b"HEAD /health/live HTTP/1.1\r\nHost: a\r\n\r\n")
            assert connection.recv(10_000).endswith(b"\r\n\r\n")
