"""Who has connected is answered, whatever else the service has to do and even if it is to end."""

import asyncio
import http.client
import json
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvloop

from service.acceptor import Acceptor

NOBODY = 65534
BODY = json.dumps({"query": "bread"}).encode()
REQUEST = b"POST /search HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)


def connect(server: Any) -> socket.socket:
    address = urlsplit(server.url)
    return socket.create_connection((address.hostname, address.port), timeout=30)


def status_of(connection: socket.socket) -> int:
    """The status of the answer that comes; 0 for a connection that ends without one."""
    response = http.client.HTTPResponse(connection)
    try:
        response.begin()
        response.read()
    except (OSError, http.client.HTTPException):
        return 0
    return response.status


def test_who_has_connected_and_asked_before_the_end_is_answered(
    start_server: Callable[..., Any],
) -> None:
    server = start_server(threads=1)
    kept = [connect(server) for _ in range(20)]
    for connection in kept:
        connection.sendall(REQUEST)
        assert status_of(connection) == 200
    # Stopped, it takes in nothing: what waits for it then is what a busy moment leaves behind.
    server.process.send_signal(signal.SIGSTOP)
    new = [connect(server) for _ in range(200)]
    for connection in [*kept, *new]:
        connection.sendall(REQUEST)
    server.process.terminate()
    server.process.send_signal(signal.SIGCONT)
    with ThreadPoolExecutor(20) as pool:
        statuses = set(pool.map(status_of, [*kept, *new]))
    assert statuses <= {200, 503}
    assert server.ended() == 0


@contextmanager
def unprivileged() -> Iterator[None]:
    """As the service runs in a container."""
    user = os.geteuid()
    os.seteuid(user or NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


def test_at_the_end_who_has_connected_is_accepted_and_nobody_else() -> None:
    accepted = []

    class Connection(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.append(transport)

    async def connect_while_it_closes() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = listener.getsockname()
            acceptor = Acceptor(listener, Connection)
            with socket.create_connection(address):
                closing = asyncio.create_task(acceptor.close([]))
                await asyncio.sleep(0)
                assert listener.fileno() >= 0
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection(address, timeout=5)
                await closing
        assert len(accepted) == 1

    with unprivileged(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(connect_while_it_closes())


def test_all_who_wait_are_accepted_in_one_turn_of_the_event_loop() -> None:
    """Its own servers take one a turn."""

    async def turns_until_accepted(number: int) -> int:
        accepted = []

        class Connection(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                accepted.append(transport)

        with ExitStack() as stack:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=number))
            for _ in range(number):
                stack.enter_context(socket.create_connection(listener.getsockname()))
            acceptor = Acceptor(listener, Connection)
            turns = 0
            while len(accepted) < number:
                await asyncio.sleep(0)
                turns += 1
            await acceptor.close([])
            return turns

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(turns_until_accepted(100)) <= 5


def test_without_a_free_file_descriptor_newcomers_wait_for_one(
    start_server: Callable[..., Any],
) -> None:
    server = start_server(threads=1)
    room = 5
    open_files = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
    limit = open_files + room
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
    connections = [connect(server) for _ in range(3 * room)]
    for connection in connections:
        connection.sendall(REQUEST)
    for connection in connections:
        assert status_of(connection) == 200
        connection.close()
    server.process.terminate()
    assert server.ended() == 0
    assert "new connections have to wait: Too many open files" in "".join(server.log)
