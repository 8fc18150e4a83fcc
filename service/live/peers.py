"""The processes of one service, which answer calls of each other."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from threading import Thread
from typing import Any

from service.wire.clients import Clients
from service.wire.problems import NotReadyError
from swiftlet.errors import RetrievalError

_SECONDS_TO_ANSWER = 60.0
_WRITER = 0

logger = logging.getLogger(__name__)


class Peers:
    """Process `number` of `count`; the first one writes and reloads, and tells the other ones.

    Each has a socket in `folder`, which only the user of the service can reach. Each call is a
    connection of its own, so that a process may end and start again at any time.
    """

    def __init__(
        self,
        folder: Path | None = None,
        number: int = _WRITER,
        count: int = 1,
        clients: Clients | None = None,
    ) -> None:
        self._folder, self._number, self.count = folder, number, count
        self._others = [each for each in range(count) if each != number]
        self.clients = clients or Clients()
        self.clients.number = number
        self._listener: Listener | None = None

    @property
    def writes(self) -> bool:
        """Whether this is the process that writes and reloads."""
        return self._number == _WRITER

    def answer(self, answers: Mapping[str, Callable[..., Any]]) -> None:
        """Answer calls from now on, each on a thread of its own."""
        if self._folder is None:
            return
        place = self._place(self._number)
        Path(place).unlink(missing_ok=True)  # an earlier process has left it
        self._listener = listener = Listener(place, "AF_UNIX", backlog=64)

        def accept() -> None:
            with suppress(OSError):  # it is closed
                while True:
                    arguments = listener.accept(), answers
                    Thread(target=_answer, args=arguments, daemon=True).start()

        Thread(target=accept, name="peers", daemon=True).start()

    def close(self) -> None:
        """Answer no further calls."""
        if self._listener is not None:
            self._listener.close()

    def ask_writer(self, name: str, *arguments: Any) -> Any:
        """The result of a call of the process that writes, which may take long.

        :raises RetrievalError: That process's own.
        :raises NotReadyError: When it is not there.
        """
        try:
            return self._ask(_WRITER, name, *arguments, seconds=None)
        except (OSError, EOFError) as error:
            raise NotReadyError(
                "the process that writes has given no answer; it is not known whether all "
                "is done: send it again"
            ) from error

    def ask_others(self, name: str) -> list[Any]:
        """The results of all other processes; one that starts or has ended has none.

        :raises RetrievalError: The first that one of them raises.
        """
        found = []
        for number in self._others:
            with suppress(OSError, EOFError):
                found.append(self._ask(number, name, seconds=_SECONDS_TO_ANSWER))
        return found

    def tell_others(self, name: str) -> None:
        """As `ask_others`, if this is the process that writes."""
        if self.writes:
            self.ask_others(name)

    def others_answer(self) -> bool:
        """Whether another process still answers calls."""
        for number in self._others:
            with suppress(OSError), Client(self._place(number), "AF_UNIX"):
                return True
        return False

    def _place(self, number: int) -> str:
        return f"{self._folder}/{number}"

    def _ask(self, number: int, name: str, *arguments: Any, seconds: float | None) -> Any:
        with Client(self._place(number), "AF_UNIX") as connection:
            connection.send((name, arguments))
            if not connection.poll(seconds):
                raise NotReadyError(f"a process of the service has not answered for {seconds:g} s")
            result, failure = connection.recv()
        if failure is not None:
            raise failure
        return result


def _answer(connection: Connection, answers: Mapping[str, Callable[..., Any]]) -> None:
    with connection, suppress(OSError, EOFError):  # the other process has ended
        name, arguments = connection.recv()
        try:
            connection.send((answers[name](*arguments), None))
        except RetrievalError as error:
            connection.send((None, error))
        except Exception:
            logger.exception("a call of another process of the service has failed")
