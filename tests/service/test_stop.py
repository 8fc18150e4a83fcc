"""Every open connection is answered, also under load and during a stop."""

import http.client
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

NOBODY = 65534
BODY = json.dumps({"query": "bread"}).encode()
REQUEST = b"POST /search HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)


def status_of(connection: socket.socket) -> int:
    """The status of the answer; 0 if the connection ends without one."""
    response = http.client.HTTPResponse(connection)
    try:
        response.begin()
        response.read()
    except (OSError, http.client.HTTPException):
        return 0
    return response.status


def test_a_client_that_connected_and_sent_a_request_before_the_stop_is_answered(
    start_server: Callable[..., Any],
) -> None:
    server = start_server(threads=1)
    kept = [server.connect() for _ in range(20)]
    for connection in kept:
        connection.sendall(REQUEST)
        assert status_of(connection) == 200
    # While it is suspended, connections wait in the backlog, as in a busy moment.
    server.process.send_signal(signal.SIGSTOP)
    new = [server.connect() for _ in range(200)]
    for connection in [*kept, *new]:
        connection.sendall(REQUEST)
    server.process.terminate()
    server.process.send_signal(signal.SIGCONT)
    with ThreadPoolExecutor(20) as pool:
        statuses = set(pool.map(status_of, [*kept, *new]))
    for connection in [*kept, *new]:
        connection.close()
    assert statuses <= {200, 503}
    assert server.ended() == 0


@contextmanager
def unprivileged() -> Iterator[None]:
    """The command of the service, as in a container."""
    user = os.geteuid()
    os.seteuid(user or NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
