"""However many clients send large requests at once, the event loop handles one in each turn."""

import asyncio
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from service.wire import body as body_module
from service.wire import requests as requests_module
from service.wire.clients import Clients
from service.wire.connection import BoundedConnection, UnreadAnswers, bounded_connection
from service.wire.turns import BYTES_AT_ONCE, Turns

CLIENTS = 12
LONG = "a" * BYTES_AT_ONCE


class Counted:
    """Counts the turns of the event loop, and notes in which one something is done."""

    def __init__(self) -> None:
        self.turn = 0
        self.noted: list[int] = []

    def note(self) -> None:
        self.noted.append(self.turn)

    def run(self, work: Callable[[], Awaitable[None]]) -> list[int]:
        """The turns that are noted during `work`."""

        async def counted() -> None:
            counting = asyncio.create_task(self._count())
            await work()
            counting.cancel()

        asyncio.run(counted())
        return self.noted

    async def _count(self) -> None:
        for self.turn in count():
            await asyncio.sleep(0)


def test_what_waits_is_called_in_its_order_once_in_each_turn():
    counted, turns, called = Counted(), Turns(), []

    async def call() -> None:
        def again(number: int) -> None:
            counted.note()
            called.append(number)
            if number < 3:
                turns.call(partial(again, number + 3))

        for number in range(3):
            turns.call(partial(again, number))
        left = asyncio.create_task(turns.take(BYTES_AT_ONCE + 1))
        last = asyncio.create_task(turns.take(BYTES_AT_ONCE + 1))
        await asyncio.sleep(0)
        left.cancel()
        await turns.take(BYTES_AT_ONCE)  # at once
        assert called == [0]
        await last

    noted = counted.run(call)
    assert called[:3] == [0, 1, 2]
    assert len(noted) == len(set(noted))


@pytest.mark.parametrize(
    ("patched", "name", "request_"),
    [
        (requests_module, "parse_qsl", {"method": "GET", "url": f"/search?q={LONG}"}),
        (requests_module, "parse_qsl", {"method": "GET", "url": f"/facets?filter={LONG}"}),
        (body_module, "from_json", {"method": "POST", "url": "/search", "json": {"query": LONG}}),
    ],
    ids=["search by link", "facets", "search"],
)
def test_requests_are_parsed_one_in_each_turn(
    make_application, small_searcher, monkeypatch, patched, name, request_
):
    counted, parse = Counted(), getattr(patched, name)

    def noted(*given: Any, **options: Any) -> Any:
        counted.note()
        return parse(*given, **options)

    monkeypatch.setattr(patched, name, noted)
    transport = httpx.ASGITransport(make_application(small_searcher).app)

    async def ask() -> None:
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            await asyncio.gather(*(client.request(**request_) for _ in range(CLIENTS)))

    turns = counted.run(ask)
    assert len(turns) == CLIENTS == len(set(turns))


@pytest.mark.parametrize("pieces", [[0], [0, -10], [0, 3_000, -10]])
@pytest.mark.parametrize("head", ["/?{} HTTP/1.1", "/ HTTP/1.1\r\nX: {}"])
def test_heads_are_read_one_in_each_turn(head, pieces):
    answered = Answered(f"GET {head.format(LONG)}\r\nHost: a\r\n\r\n".encode(), pieces)
    assert len(answered.begun) == CLIENTS == len(set(answered.begun))


def test_queued_requests_of_all_connections_begin_one_in_each_turn():
    request, each = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 200
    answered = Answered(request * each, [0], each)
    assert len(answered.begun) == each * CLIENTS
    # The first one of a connection does not wait for another.
    assert len(set(answered.begun)) >= (each - 1) * CLIENTS
    (_, most), *_ = Counter(answered.read).most_common(1)
    assert most <= BYTES_AT_ONCE // len(request) + 1


class Answered:
    """What clients send is read and answered; in which turns heads are read, and answers begun."""

    def __init__(self, sent: bytes, pieces: list[int], each: int = 1) -> None:
        self._sent, self._pieces, self._count = sent, pieces, each * CLIENTS
        self._counted = Counted()
        self.read: list[int] = []
        self.begun = self._counted.run(self._ask)

    async def _answer(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        self._counted.note()
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})

    def _connection(self) -> type[BoundedConnection]:
        bounded = bounded_connection(
            head_timeout_ms=60_000,
            write_timeout_ms=60_000,
            unread=UnreadAnswers(),
            turns=Turns(),
            clients=Clients(),
        )

        def on_headers_complete(connection: BoundedConnection) -> None:
            self.read.append(self._counted.turn)
            bounded.on_headers_complete(connection)

        return type("Noting", (bounded,), {"on_headers_complete": on_headers_complete})

    async def _ask(self) -> None:
        loop, state = asyncio.get_running_loop(), ServerState()
        config = uvicorn.Config(
            self._answer, interface="asgi3", lifespan="off", log_config=None, ws="none"
        )
        config.load()
        connection = self._connection()
        server = await loop.create_server(
            lambda: connection(config=config, server_state=state, app_state={}), "127.0.0.1", 0
        )
        address = server.sockets[0].getsockname()
        clients = [socket.create_connection(address) for _ in range(CLIENTS)]
        while len(state.connections) < CLIENTS:
            await asyncio.sleep(0)
        for first, last in zip(self._pieces, [*self._pieces[1:], None], strict=True):
            for client in clients:
                client.sendall(self._sent[first:last])
            for _ in range(10 * CLIENTS):  # until all is read
                await asyncio.sleep(0)
        while len(self._counted.noted) < self._count:
            await asyncio.sleep(0)
        for client in clients:
            client.close()
        server.close()
