"""Processes that accept from one socket get as many clients each."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from math import inf
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from threading import Thread
from time import thread_time
from typing import Any

import pytest
import uvloop

from service.wire import clients as clients_module
from service.wire.clients import Acceptor, Clients
from tests.polling import wait_until

MOMENT = 0.002
"""How long each request occupies a process, in seconds of processor time."""


class Numbered(asyncio.Protocol):
    """Answers each request, after some work, with the number of its process."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        end = thread_time() + MOMENT
        while thread_time() < end:
            pass
        self._transport.write(bytes([self._clients.number]))

    def connection_lost(self, exc: Exception | None) -> None:
        self._clients.left()


def serve(listener: socket.socket, clients: Clients, number: int) -> None:
    clients.number = number
    parent = os.getppid()

    async def accept() -> None:
        Acceptor([listener], lambda: Numbered(clients), clients)
        while os.getppid() == parent:
            await asyncio.sleep(1)

    uvloop.run(accept())


class Processes:
    """Processes that take clients of one listener, and what this process connects."""

    def __init__(self, count: int, stack: ExitStack) -> None:
        self.clients, self._stack = Clients(count), stack
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=100))
        listener.setblocking(False)
        self._address = listener.getsockname()
        self.processes: list[BaseProcess] = []
        for number in range(count):
            process = get_context("fork").Process(
                target=serve, args=(listener, self.clients, number)
            )
            process.start()
            self.processes.append(process)
            stack.callback(process.join)
            stack.callback(process.kill)
        wait_until(lambda: self.clients.of_each() == [0] * count)

    def connect(self, count: int) -> list[socket.socket]:
        connect = socket.create_connection
        return [self._stack.enter_context(connect(self._address, 100)) for _ in range(count)]


@pytest.fixture
def pair() -> Iterator[Processes]:
    with ExitStack() as stack:
        yield Processes(2, stack)


@pytest.fixture
def patient_pair(monkeypatch) -> Iterator[Processes]:
    """Two processes that wait for each other, however late the system lets one of them run."""
    monkeypatch.setattr(clients_module, "_PATIENCE_SECONDS", inf)
    with ExitStack() as stack:
        yield Processes(2, stack)


def ask(client: socket.socket) -> int:
    client.sendall(b"?")
    return client.recv(1)[0]


def test_two_busy_processes_get_the_same_number_of_clients(patient_pair):
    def keep_busy(client: socket.socket) -> None:
        while not ended:
            ask(client)

    ended: list[bool] = []
    clients = patient_pair.connect(2)
    assert {ask(client) for client in clients} == {0, 1}
    asking = [Thread(target=keep_busy, args=[client]) for client in clients]
    for each in asking:
        each.start()
    try:
        for number in range(1, 5):
            patient_pair.connect(10)
            wait_until(lambda n=number: sum(patient_pair.clients.of_each()) == 2 + 10 * n)
            assert patient_pair.clients.of_each() == [1 + 5 * number] * 2
    finally:
        ended.append(True)
        for each in asking:
            each.join()


def test_new_clients_go_to_the_process_that_has_lost_some(patient_pair):
    for client in patient_pair.connect(20):
        if ask(client) == 0:
            client.close()
    wait_until(lambda: patient_pair.clients.of_each() == [0, 10])
    assert [ask(client) for client in patient_pair.connect(10)] == [0] * 10


def test_a_process_that_has_ended_is_left_no_clients(patient_pair):
    patient_pair.processes[1].kill()
    patient_pair.processes[1].join()
    patient_pair.clients.end(1)
    assert [ask(client) for client in patient_pair.connect(10)] == [0] * 10


def test_clients_are_not_left_to_a_process_that_is_stopped(pair):
    pid = pair.processes[1].pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    assert [ask(client) for client in pair.connect(10)] == [0] * 10
