"""`swiftlet` with one part of its service replaced by the standard part of Python or uvicorn.

python -m benchmarks.baselines.ablated FUNCTION serve INDEX …
"""

import gc
import sys
from asyncio import Transport
from collections.abc import Callable

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service import connection, executor, server
from swiftlet.__main__ import main


class PoolExecutor(executor.SearchExecutor):
    """Runs every call on a pool with a thread for each core, and none on the event loop."""

    def __init__(self, threads: int, *, max_queued: int) -> None:
        super().__init__(threads + 1, max_queued=max_queued)
        self.threads = threads
        self._idle = sys.maxsize  # so that each call is submitted to the pool

    def run_on_every_thread(self, function: Callable[[], object]) -> None:
        function()


class SeparateWrites(Transport):
    """Sends each write by itself."""

    def __init__(self, transport: Transport) -> None:
        super().__init__()
        names = [name for name in dir(transport) if name[:2] != "__"]
        self.__dict__ |= {name: getattr(transport, name) for name in names}

    def flush(self) -> None:
        """Send nothing, since nothing is held back."""


def write_separately() -> None:
    """Let uvicorn write the head of an answer and its body one after the other."""
    vars(connection)["JoinedWrites"] = SeparateWrites


def use_thread_pool() -> None:
    """Search on threads alone, as `run_in_threadpool` does."""
    vars(server)["SearchExecutor"] = PoolExecutor


def share_no_time() -> None:
    """Let the event loop run one call at a time."""
    executor._LONGEST_SHARE_SECONDS = 0.0  # noqa: SLF001


def listen_once() -> None:
    """Listen on one handle of the socket, of which the event loop accepts one connection a time."""
    server._LISTENERS = 1  # noqa: SLF001


def collect_all_objects() -> None:
    """Let a garbage collection walk the objects of the imported packages, too."""
    vars(gc)["freeze"] = lambda: None


def use_uvicorn() -> None:
    """Leave connections and stops to uvicorn."""
    vars(server)["bounded_connection"] = lambda **_: HttpToolsProtocol
    server._Server.shutdown = uvicorn.Server.shutdown  # type: ignore[method-assign]  # noqa: SLF001


if __name__ == "__main__":
    globals()[sys.argv.pop(1)]()
    main()
