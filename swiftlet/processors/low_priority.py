"""Calls functions in another process, which leaves the processor to searches."""

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic, process_time
from typing import Any

from swiftlet.errors import ArtefactError, RetrievalError, StorageError

_PRIORITY = 19
_SECONDS_SAVED = 10.0
"""For how long an unused share is kept for later calls."""

_ENDED_FIRST = "1000"
_SIGNAL_OF_PARENTS_DEATH = 1


class LowPriorityProcess:
    """Calls functions one at a time, all from one thread, and never after that thread has ended.

    The process shares no interpreter lock with searches. It starts when first needed, and again
    after it has ended. Its calls have the lowest priority, but for `share` of a core the priority
    of the service, so that they end beside busy processes.
    """

    def __init__(self, name: str, *, share: float = 0.0) -> None:
        self._name, self._share = name, share
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._closed = False

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a function of a module.

        :raises RetrievalError: The function's own, or when the process has ended early.
        :raises StorageError: When the system does not let it start.
        """
        if self._process is not None and not self._process.is_alive():
            self.end()
        try:
            connection = self._connection or self._start()
        except OSError as refusal:
            raise StorageError(
                f"the process {self._name!r} cannot be started: {refusal.strerror}"
            ) from refusal
        try:
            connection.send((function, arguments))
            result, failure = connection.recv()
        except (EOFError, OSError):
            self.end()
            raise ArtefactError(
                f"the process {self._name!r} ended early: it may need more memory"
            ) from None
        if failure is not None:
            raise failure
        return result

    def end(self) -> None:
        """End the process, with the call under way; from any thread."""
        process, self._process, self._connection = self._process, None, None
        if process is not None:
            process.kill()
            process.join()

    def close(self) -> None:
        """End the process for good."""
        self._closed = True
        self.end()

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        connection, its_end = context.Pipe()
        process = context.Process(
            target=_answer_calls, args=(its_end, os.getpid(), self._share), name=self._name
        )
        process.start()
        self._process, self._connection = process, connection
        its_end.close()
        if self._closed:  # `close` may have looked before there was a process
            process.kill()
        return connection


def _answer_calls(connection: Connection, parent: int, share: float) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service ends this process
    # A merge without its service must not go on: the next service would merge in the same place.
    ctypes.CDLL(None).prctl(_SIGNAL_OF_PARENTS_DEATH, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended before that
        return
    with suppress(OSError):  # where the memory ends, the kernel ends this process and no search
        Path("/proc/self/oom_score_adj").write_text(_ENDED_FIRST)
    # Two threads, each with a priority of its own: without privileges, none can raise it again.
    prompt = ThreadPoolExecutor(1)
    patient = ThreadPoolExecutor(
        1, initializer=os.setpriority, initargs=(os.PRIO_PROCESS, 0, _PRIORITY)
    )
    saved, looked = share * _SECONDS_SAVED, monotonic()
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:  # the service ends
            return
        earned, looked = share * (monotonic() - looked), monotonic()
        saved = min(saved + earned, share * _SECONDS_SAVED)
        thread, began = prompt if saved > 0 else patient, process_time()
        try:
            connection.send((thread.submit(function, *arguments).result(), None))
        except RetrievalError as error:
            connection.send((None, error))
        if thread is prompt:
            saved -= process_time() - began
