"""A bounded fair queue of the calls that requests wait for."""

import heapq
import math
from dataclasses import dataclass
from itertools import count
from threading import Lock
from time import perf_counter
from typing import Generic, NamedTuple, TypeVar

from service.wire.problems import QueueFullError


@dataclass(slots=True, eq=False)
class QueuedRequest:
    """A request with `calls` calls, each of which takes about `expected_seconds`.

    `deadline` and `waiting_since` are readings of `perf_counter` in seconds.
    """

    calls: int
    deadline: float = math.inf
    expected_seconds: float = 0.0
    begun: int = 0
    waiting_since: float = 0.0


RequestT = TypeVar("RequestT", bound=QueuedRequest)


class NextCall(NamedTuple, Generic[RequestT]):
    """The next call: its request, its number in that request, and how long it waited."""

    request: RequestT
    number: int
    queue_seconds: float


class FairQueue(Generic[RequestT]):
    """First come, first served, one call of each request at a time. Thread-safe.

    A request goes back to the end after each of its calls, so a batch delays a single query by one
    call. The place of a call is its arrival plus its expected duration. So cheap searches overtake
    expensive ones that arrived shortly before, but cannot delay them for ever.
    """

    def __init__(self, max_waiting: int) -> None:
        """Make a queue in which at most `max_waiting` calls wait."""
        self.max_waiting = max_waiting
        self.waiting = 0
        self._heap: list[tuple[float, int, RequestT]] = []
        self._arrivals = count()
        self._lock = Lock()

    def put(self, request: RequestT) -> None:
        """Add all calls of `request`.

        :raises QueueFullError: When not all of them fit.
        """
        with self._lock:
            if self.waiting + request.calls > self.max_waiting:
                raise QueueFullError(
                    f"{self.waiting} queries are waiting and {request.calls} more were requested; "
                    f"at most {self.max_waiting} may wait"
                )
            self.waiting += request.calls
            request.waiting_since = now = perf_counter()
            place = now + request.expected_seconds
            heapq.heappush(self._heap, (place, next(self._arrivals), request))

    def next(self) -> NextCall[RequestT] | None:
        """Take the next call, or None if none waits. Expired requests are dropped."""
        with self._lock:
            while self._heap:
                _, _, request = heapq.heappop(self._heap)
                if request.begun == request.calls:
                    continue  # removed meanwhile
                now = perf_counter()
                if request.deadline <= now:
                    self._drop(request)
                    continue
                call = NextCall(request, request.begun, now - request.waiting_since)
                request.begun += 1
                self.waiting -= 1
                if request.begun < request.calls:
                    request.waiting_since = now
                    place = now + request.expected_seconds
                    heapq.heappush(self._heap, (place, next(self._arrivals), request))
                return call
        return None

    def remove(self, request: RequestT) -> None:
        """Drop all calls of `request` that have not begun."""
        with self._lock:
            self._drop(request)

    def _drop(self, request: RequestT) -> None:
        self.waiting -= request.calls - request.begun
        request.begun = request.calls
        if not self.waiting:
            self._heap.clear()  # removed requests, and what they refer to
