"""Several processes of one service, which accept from the same sockets."""

import ctypes
import gc
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic

from service.live.peers import Peers
from service.wire.clients import Clients
from swiftlet.errors import ArtefactError, InvalidArgumentError, RetrievalError

STOP = signal.SIGUSR1
"""Stops a worker. It ignores SIGTERM and SIGINT, which a group of processes gets as a whole."""

_WATCHED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}
_SIGNAL_OF_PARENTS_DEATH = 1
_POLL_SECONDS = 0.05
_SECONDS_BEFORE_NEXT_TRY = 1.0
# First, since a container may have a read-only file system, and nothing is to be written into one.
_SHARED_MEMORY = "/dev/shm"  # noqa: S108

logger = logging.getLogger(__name__)

Work = Callable[[Peers, Callable[[], None]], None]
"""What a process does, with its peers and with what it calls when it is ready."""


@dataclass(slots=True)
class _Worker:
    number: int
    ready: Connection
    is_ready: bool = False
    failure: RetrievalError | None = None

    def look(self) -> None:
        """Read whether it is ready, or why it is not."""
        with suppress(EOFError):  # it has ended
            if self.ready.poll():
                self.failure = self.ready.recv()
                self.is_ready = self.failure is None


class Workers:
    """Forks processes, passes signals on, and starts those again that end by themselves.

    They are forked after all packages are imported and before anything is opened, so they share
    the memory of the packages, and no lock or file.
    """

    def __init__(
        self, count: int, work: Work, refuse: Callable[[], None], on_ready: Callable[[], None]
    ) -> None:
        """Run `work` in `count` processes; `refuse` ends new connections before a stop."""
        self._count, self._work, self._refuse, self._on_ready = count, work, refuse, on_ready
        self._clients = Clients(count)
        self._workers: dict[int, _Worker] = {}
        self._due: list[tuple[float, int]] = []
        self._announced = self._stopping = False
        self._failure: RetrievalError | None = None

    def run(self) -> None:
        """Run until all processes have ended, after SIGTERM or SIGINT.

        :raises RetrievalError: When one of them cannot start.
        """
        signal.signal(signal.SIGHUP, lambda *_: None)  # one that is ignored cannot be waited for
        gc.collect()
        gc.freeze()  # so that a collection does not copy the memory that they share
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        with _folder() as folder:
            for number in range(self._count):
                self._start(folder, number)
            while self._workers or (self._due and not self._stopping):
                seconds = _SECONDS_BEFORE_NEXT_TRY if self._announced else _POLL_SECONDS
                self._handle(signal.sigtimedwait(_WATCHED, seconds))
                self._announce()
                while self._due and self._due[0][0] < monotonic() and not self._stopping:
                    self._start(folder, self._due.pop(0)[1])
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if self._failure is not None:
            raise self._failure

    def _start(self, folder: Path, number: int) -> None:
        ready, its_end = Pipe(duplex=False)
        supervisor, pid = os.getpid(), os.fork()
        if pid:
            its_end.close()
            self._workers[pid] = _Worker(number, ready)
            return
        status = 1
        try:
            for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(each, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
            ctypes.CDLL(None).prctl(_SIGNAL_OF_PARENTS_DEATH, STOP)
            signal.signal(STOP, lambda *_: sys.exit(0))
            if os.getppid() == supervisor:  # else it has ended before that
                peers = Peers(folder, number, self._count, self._clients)
                self._work(peers, lambda: its_end.send(None))
            status = 0
        except RetrievalError as error:
            its_end.send(error)
        except SystemExit as error:
            status = int(error.code or 0)
        except BaseException:
            logger.exception("a process of the service has failed")
        finally:
            logging.shutdown()
            os._exit(status)  # not through the blocks of the process that was forked

    def _handle(self, happened: "signal.struct_siginfo | None") -> None:
        if happened is None:
            return
        if happened.si_signo == signal.SIGCHLD:
            with suppress(ChildProcessError):
                while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                    self._has_ended(*ended)
        elif happened.si_signo == signal.SIGHUP:
            self._send(
                signal.SIGHUP, [pid for pid, each in self._workers.items() if not each.number]
            )
        else:
            logger.info("%s: stopping all processes", signal.Signals(happened.si_signo).name)
            self._stop()

    def _has_ended(self, pid: int, status: int) -> None:
        worker = self._workers.pop(pid, None)
        if worker is None:  # the first process of a container gets those that lost their parent
            return
        self._clients.end(worker.number)
        with worker.ready:
            worker.look()
        if self._stopping:
            return
        exit_status = os.waitstatus_to_exitcode(status)
        if not self._announced:
            self._failure = worker.failure or ArtefactError(
                f"a process of the service ended with status {exit_status} before it was ready"
            )
            self._stop()
            return
        why = worker.failure or f"status {exit_status}"
        logger.error(
            "process %d of the service has ended (%s) and starts again", worker.number, why
        )
        self._due.append((monotonic() + _SECONDS_BEFORE_NEXT_TRY, worker.number))

    def _announce(self) -> None:
        if self._announced or self._stopping:
            return
        for worker in self._workers.values():
            worker.look()
        if all(worker.is_ready for worker in self._workers.values()):
            self._announced = True
            self._on_ready()

    def _stop(self) -> None:
        self._stopping = True
        self._refuse()  # before the first process closes its sockets
        self._send(STOP, self._workers)

    @staticmethod
    def _send(signal_: signal.Signals, pids: Sequence[int] | dict[int, _Worker]) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal_)


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder for the sockets at which the processes ask each other."""
    for place in (_SHARED_MEMORY, None):
        with suppress(OSError):
            folder = tempfile.TemporaryDirectory(prefix="swiftlet-", dir=place)
            break
    else:
        raise InvalidArgumentError(
            "several workers need a folder for their sockets; set TMPDIR to one that can be "
            "written, or SWIFTLET_WORKERS to 1"
        )
    with folder as name:
        yield Path(name)
