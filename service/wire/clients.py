"""Takes new clients from sockets that all processes of a service share, each as many."""

import asyncio
import mmap
import socket
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic

_AT_ONCE = 16
"""The most clients that are taken in one turn of the event loop: with one, new clients waited for
seconds under load."""

_SECONDS_LEFT = 0.001
_PATIENCE_SECONDS = 0.25
"""After which clients are taken that were left to a process which took none: it may be stopped."""

_TAKES_NONE = -1
_WAITING = struct.Struct("24xI")
"""Of TCP_INFO of a socket that listens: how many clients have connected and wait."""


class Clients:
    """How many clients each process of a service has, in memory that the processes share.

    It is made before the processes are forked; `number` is the process that this one is.
    """

    def __init__(self, processes: int = 1) -> None:
        self.number = 0
        shared = memoryview(mmap.mmap(-1, 16 * processes)).cast("q")
        self._present, self._taken = shared[:processes], shared[processes:]
        for number in range(processes):
            self.end(number)

    def begin(self) -> None:
        """Take clients from now on."""
        self._present[self.number] = 0

    def end(self, number: int) -> None:
        """Count for nothing a process that takes no clients any more."""
        self._present[number] = _TAKES_NONE

    def came(self) -> None:
        """Count a client that this process has taken."""
        self._present[self.number] += 1
        self._taken[self.number] += 1

    def left(self) -> None:
        """Count a client no more."""
        self._present[self.number] -= 1

    def of_each(self) -> list[int]:
        """The clients of each process that takes any."""
        return [each for each in self._present if each != _TAKES_NONE]

    def taken_by_others(self) -> int:
        """How many clients the other processes have taken so far."""
        return sum(self._taken) - self._taken[self.number]

    def share(self, waiting: int) -> int:
        """How many of `waiting` clients this process takes, for all processes to have as many.

        None, or fewer, if it has more than its share already.
        """
        counts = self.of_each()
        return -(-(sum(counts) + waiting) // len(counts)) - self._present[self.number]


class Acceptor:
    """Takes the clients of one process; for a while, it leaves them to a process with fewer.

    The kernel wakes all processes for each client. Clients that stay are not moved later.
    """

    def __init__(
        self,
        listeners: Iterable[socket.socket],
        protocol: Callable[[], asyncio.Protocol],
        clients: Clients,
    ) -> None:
        """Connect clients of `listeners`, which do not block, to a new `protocol` each."""
        self._listeners, self._protocol, self._clients = [*listeners], protocol, clients
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[None]] = set()
        self._waits_since, self._taken_before = 0.0, -1
        clients.begin()
        for listener in self._listeners:
            self._watch(listener)

    async def end(self) -> None:
        """Take all clients that wait, and no further ones: closing would reset those that wait."""
        for listener in self._listeners:
            self._loop.remove_reader(listener)
            while self._take(listener):
                pass
            listener.close()
        await asyncio.gather(*self._connecting)

    def _watch(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0:  # else it was closed meanwhile
            self._loop.add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        waiting = max(1, _waiting(listener))
        share = self._clients.share(waiting)
        if share <= 0 and self._is_patient():
            self._pause(listener)
            return
        for _ in range(min(share if share > 0 else waiting, _AT_ONCE)):
            if not self._take(listener):
                return

    def _is_patient(self) -> bool:
        """Whether there is still time for another process to take a client."""
        if (taken := self._clients.taken_by_others()) != self._taken_before:
            self._waits_since, self._taken_before = monotonic(), taken
        return monotonic() < self._waits_since + _PATIENCE_SECONDS

    def _pause(self, listener: socket.socket) -> None:
        """Look again a little later, so that nothing spins."""
        self._loop.remove_reader(listener)
        self._loop.call_later(_SECONDS_LEFT, self._watch, listener)

    def _take(self, listener: socket.socket) -> bool:
        """Take a client, if there is one."""
        try:
            connection, _ = listener.accept()
        except ConnectionAbortedError:  # that client has left
            return True
        except BlockingIOError:  # another process has taken it
            return False
        except OSError:  # no file descriptor is free
            self._pause(listener)
            return False
        self._clients.came()
        task = self._loop.create_task(self._connect(connection))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        return True

    async def _connect(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, connection)
        except OSError:  # it has left
            self._clients.left()


def _waiting(listener: socket.socket) -> int:
    with suppress(OSError):
        info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _WAITING.size)
        return int(_WAITING.unpack(info)[0])
    return 0
