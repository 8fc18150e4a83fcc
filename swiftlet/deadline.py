"""How long what asks another machine may wait, and exchanges over HTTP that end in time."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import inf
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore, Thread
from time import perf_counter

from swiftlet.errors import shown
from swiftlet.extras import extra

_MOST_WAITING = 64

_DEADLINE: ContextVar[float] = ContextVar("deadline", default=inf)


@contextmanager
def due_at(deadline: float) -> Iterator[None]:
    """In the block, the answer to the search on this thread is due at this `perf_counter` time."""
    token = _DEADLINE.set(deadline)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def seconds_left() -> float:
    """How long another machine may take; infinite if there is no deadline."""
    return _DEADLINE.get() - perf_counter()


def retry_after_seconds(text: str) -> float:
    """The time of a header `Retry-After`, in seconds or as a date; 0 if missing or malformed."""
    try:
        return (
            float(text) if text.isdigit() else parsedate_to_datetime(text).timestamp() - time.time()
        )
    except (ValueError, OverflowError):
        return 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of HTTP; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class AnswerError(Exception):
    """An answer that is not taken; the message continues a sentence about the server."""


class Exchanges:
    """Requests over HTTP to a server, over connections that stay open. Thread-safe.

    Redirects, which would take a key to another host, are answers. Another thread waits for each:
    the bounds of httpx begin anew with every byte of a head, so a server could hold up its reader
    without end. As many threads as `_MOST_WAITING` may be held up so; then nothing is asked any
    more.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        """Ask nothing yet.

        :raises MissingExtraError: When httpx is not installed.
        """
        with extra("client"):
            import httpx
        kinds = {"Content-Type": "application/json", "Accept": "application/json"}
        # Some kilobytes of a compressed answer can be gigabytes.
        self._client = httpx.Client(
            headers={**kinds, "Accept-Encoding": "identity", **headers},
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
        )
        self._waiting = BoundedSemaphore(_MOST_WAITING)

    def __call__(
        self, method: str, url: str, content: bytes | None, *, due: float, most_bytes: int
    ) -> Answer:
        """The answer, at `due` of `perf_counter` at the latest.

        :raises AnswerError: When there is more of it than `most_bytes`, or it is compressed, or too
            many others have not ended.
        :raises ConnectionError: When the server is not reached, or does not answer by HTTP.
        :raises TimeoutError: When there is no whole answer in time.
        """
        if not self._waiting.acquire(blocking=False):
            raise AnswerError(
                f"has not ended {_MOST_WAITING} answers: it is not asked again before it does"
            )
        ended: SimpleQueue[Answer | Exception] = SimpleQueue()

        def wait() -> None:
            try:
                ended.put(self._exchange(method, url, content, due, most_bytes))
            except Exception as error:  # noqa: BLE001 - the caller raises it
                ended.put(error)
            finally:
                self._waiting.release()

        Thread(target=wait, daemon=True).start()
        try:
            found = ended.get(timeout=max(0.001, due - perf_counter()))
        except Empty:
            found = TimeoutError()
        if isinstance(found, Exception):
            raise found
        return found

    def _exchange(
        self, method: str, url: str, content: bytes | None, due: float, most_bytes: int
    ) -> Answer:
        import httpx

        answer, seconds = bytearray(), max(0.001, due - perf_counter())
        try:
            with self._client.stream(method, url, content=content, timeout=seconds) as response:
                if (coding := response.headers.get("content-encoding")) not in {None, "identity"}:
                    raise AnswerError(
                        f"answers in the encoding {shown(coding)}, which was not asked for"
                    )
                for chunk in response.iter_raw():
                    answer += chunk
                    if perf_counter() > due:
                        raise TimeoutError
                    if len(answer) > most_bytes:
                        raise AnswerError(f"answers with more than {most_bytes:,} bytes")
                return Answer(response.status_code, dict(response.headers), bytes(answer))
        except httpx.TimeoutException:
            raise TimeoutError from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ConnectionError(f"{error}" or type(error).__name__) from None
