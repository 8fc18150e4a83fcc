"""A bounded fair queue of calls, and the threads that run them, one at a time on each."""

import asyncio
import heapq
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from operator import attrgetter
from threading import Barrier, Lock
from time import perf_counter, thread_time
from typing import Any, Generic, NamedTuple, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from service.wire.problems import DeadlineError, QueueFullError

Argument = TypeVar("Argument")
Result = TypeVar("Result")
RequestT = TypeVar("RequestT", bound="QueuedRequest")

DEFAULT_MAX_QUEUED = 256

_PATIENCE_SECONDS = 0.05
"""The check for a disconnected client begins after this time: most answers are ready earlier."""

_SHORTEST_SHARE_SECONDS, _LONGEST_SHARE_SECONDS = 0.005, 0.02
"""How long the event loop searches, if there is so much to do, before it reads requests again."""

_TURNS_BETWEEN_SHARES = 6
"""Turns of the event loop. A request is read in one turn, and asks for its search some turns later:
with a share before each of them, it would wait for all these shares."""

_SHORTEST_CALL_SECONDS = 0.0002
"""What a call counts at least where lines take turns: about a search by the look-up encoder."""

_SECONDS_AFTER_LONG_CALL = 1.0
"""How long the event loop runs no calls after one that took more processor time than its share."""


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


class NextCall(NamedTuple, Generic[RequestT]):
    """The next call: its request, its number in that request, and how long it waited."""

    request: RequestT
    number: int
    queue_seconds: float


@dataclass(slots=True, eq=False)
class Line(Generic[RequestT]):
    """The requests about one index: `waiting` calls, of `max_waiting` at most.

    The line with the lowest `turn` is next, which the expected seconds of its call are added to.
    """

    max_waiting: int
    waiting: int = 0
    turn: float = 0.0
    heap: list[tuple[float, int, RequestT]] = field(default_factory=list)


_turn = attrgetter("turn")


class FairQueue(Generic[RequestT]):
    """Lines take turns, each for as long as its call takes: a full line does not delay another one.

    In a line: first come, first served, one call of each request at a time. A request goes back to
    the end after each of its calls, so a batch delays a single query by one call. The place of a
    call is its arrival plus its expected duration. So cheap searches overtake expensive ones that
    arrived shortly before, but cannot delay them for ever. Thread-safe.
    """

    def __init__(self) -> None:
        self._lines: list[Line[RequestT]] = []
        self._turn = 0.0
        self._arrivals = count()
        self._lock = Lock()

    @property
    def waiting(self) -> int:
        """The calls that wait in all lines."""
        with self._lock:
            return sum(line.waiting for line in self._lines)

    def put(self, request: RequestT, line: Line[RequestT]) -> None:
        """Add all calls of `request` to a line.

        :raises QueueFullError: When not all of them fit.
        """
        with self._lock:
            if line.waiting + request.calls > line.max_waiting:
                raise QueueFullError(
                    f"{line.waiting} queries are waiting and {request.calls} more were requested; "
                    f"at most {line.max_waiting} may wait"
                )
            if line not in self._lines:
                line.turn = max(line.turn, self._turn)  # turns are not saved up
                self._lines.append(line)
            line.waiting += request.calls
            self._wait(request, line, perf_counter())

    def next(self) -> NextCall[RequestT] | None:
        """Take the next call, or None if none waits. Expired requests are dropped."""
        with self._lock:
            while self._lines:
                line = min(self._lines, key=_turn)
                if not line.heap:
                    self._lines.remove(line)
                    continue
                _, _, request = heapq.heappop(line.heap)
                if request.begun == request.calls:
                    continue  # removed meanwhile
                now = perf_counter()
                if request.deadline <= now:
                    self._drop(request, line)
                    continue
                call = NextCall(request, request.begun, now - request.waiting_since)
                request.begun += 1
                line.waiting -= 1
                self._turn = line.turn
                line.turn += max(request.expected_seconds, _SHORTEST_CALL_SECONDS)
                if request.begun < request.calls:
                    self._wait(request, line, now)
                return call
        return None

    def remove(self, request: RequestT, line: Line[RequestT]) -> None:
        """Drop all calls of `request` that have not begun."""
        with self._lock:
            self._drop(request, line)

    def _wait(self, request: RequestT, line: Line[RequestT], now: float) -> None:
        request.waiting_since = now
        place = now + request.expected_seconds
        heapq.heappush(line.heap, (place, next(self._arrivals), request))

    def _drop(self, request: RequestT, line: Line[RequestT]) -> None:
        line.waiting -= request.calls - request.begun
        request.begun = request.calls
        if not line.waiting:
            line.heap.clear()  # removed requests, and what they refer to


async def _never() -> Message:
    return await asyncio.Future()


@dataclass(frozen=True, slots=True)
class Completed(Generic[Result]):
    """The result of one call, when it began (`perf_counter`), and its wait before that."""

    result: Result
    began: float
    queue_seconds: float


@dataclass(slots=True, eq=False)
class _Job(QueuedRequest):
    """One function, to be called once for each argument."""

    function: Callable[[Any], Any] = field(kw_only=True)
    arguments: Sequence[Any] = field(kw_only=True)
    answer: asyncio.Future[list[Any]] = field(kw_only=True)
    results: dict[int, Completed[Any]] = field(default_factory=dict)
    error: BaseException | None = None

    def run(self, call: NextCall["_Job"], *, on_loop: bool) -> None:
        """Run `call` on this thread, and end on the event loop."""
        began, tell = perf_counter(), self.expire
        try:
            result = self.function(self.arguments[call.number])
        except BaseException as error:  # noqa: BLE001 - raised again by `SearchExecutor.map`
            # Other threads must not begin further calls of this job.
            self.error, self.deadline = error, -math.inf
        if self.deadline > perf_counter():
            completed = Completed(result, began, call.queue_seconds)
            tell = partial(self._complete, call.number, completed)
        if on_loop:
            tell()
        else:
            with suppress(RuntimeError):  # the event loop has ended
                self.answer.get_loop().call_soon_threadsafe(tell)

    def fail(self, error: BaseException) -> None:
        """End with `error`, unless it has ended."""
        if not self.answer.done():
            self.answer.set_exception(error)

    def expire(self) -> None:
        """End because the deadline has passed, or because another of its calls has failed."""
        self.fail(self.error or DeadlineError("the deadline passed before there was an answer"))

    def _complete(self, number: int, completed: Completed[Any]) -> None:
        self.results[number] = completed
        if len(self.results) == self.calls and not self.answer.done():
            self.answer.set_result([self.results[number] for number in range(self.calls)])


class SearchExecutor:
    """Runs calls in the order of a fair queue, on `threads` - 1 threads and on the event loop.

    Idle threads take calls first; while all are busy, the event loop runs calls itself, and on one
    core it runs them all. docs/results/smaller.md has the effect of each part. A call that
    would hold up the event loop for too long runs on one more thread, in its place. So do all
    calls for a second after one that has held it up.
    """

    def __init__(self, threads: int, *, max_queued: int = DEFAULT_MAX_QUEUED) -> None:
        """Make an executor in which at most `max_queued` calls wait."""
        self.threads = threads
        self.queue: FairQueue[_Job] = FairQueue()
        self.line: Line[_Job] = Line(max_queued)
        self._pool = ThreadPoolExecutor(max(1, threads - 1), thread_name_prefix="search")
        self._instead_of_loop = ThreadPoolExecutor(1, thread_name_prefix="long-search")
        self._idle = threads - 1
        self._lock = Lock()
        self._loop_is_scheduled = False
        self._share_ended = self._no_call_before = 0.0

    async def map(
        self,
        function: Callable[[Argument], Result],
        arguments: Sequence[Argument],
        *,
        deadline: float = math.inf,
        expected_seconds: float = 0.0,
        receive: Receive = _never,
        line: Line[_Job] | None = None,
    ) -> list[Completed[Result]]:
        """The results of `function` for each of `arguments`, in their order.

        When it ends, also by an error, calls that have not begun are dropped.

        :param deadline: The latest time for all results, as `perf_counter` gives it.
        :param expected_seconds: How long one call will take; cheap calls may overtake.
        :param receive: The request's ASGI channel, which reports that the client has disconnected.
        :param line: Where the calls wait, if not in the executor's own line.
        :raises QueueFullError: When too many calls wait already.
        :raises DeadlineError: When the deadline passes first.
        :raises ClientDisconnect: When the client leaves before the end.
        :raises Exception: The first that `function` raises.
        """
        if not arguments:
            return []
        loop, line = asyncio.get_running_loop(), line or self.line
        job = _Job(
            len(arguments),
            deadline,
            expected_seconds,
            function=function,
            arguments=arguments,
            answer=loop.create_future(),
        )
        self.queue.put(job, line)
        with self._lock:
            starting = min(job.calls, self._idle)
            self._idle -= starting
        for _ in range(starting):
            self._pool.submit(self._run_on_thread)
        if starting < job.calls and not self._loop_is_scheduled:
            self._loop_is_scheduled = True
            self._share_ended = perf_counter()
            loop.call_soon(self._run_on_loop)
        watcher: asyncio.Task[None] | None = None

        def watch() -> None:
            nonlocal watcher
            watcher = loop.create_task(_end_without_answer(job, receive))

        timer = loop.call_later(min(_PATIENCE_SECONDS, deadline - perf_counter()), watch)
        try:
            return await job.answer
        finally:
            self.queue.remove(job, line)
            timer.cancel()
            if watcher is not None:
                watcher.cancel()

    def run_on_every_thread(self, function: Callable[[], object]) -> None:
        """Run `function` on the event loop's thread, which calls this, and on each other thread."""
        together = Barrier(self.threads)  # so that no thread runs it twice

        def run() -> None:
            together.wait()
            function()

        runs = [self._pool.submit(run) for _ in range(self.threads - 1)]
        run()
        for each in runs:
            each.result()

    def close(self) -> None:
        """Finish the calls under way and end the threads."""
        for pool in (self._pool, self._instead_of_loop):
            pool.shutdown(wait=True, cancel_futures=True)

    def _run_on_thread(self) -> None:
        while (call := self.queue.next()) is not None:
            call.request.run(call, on_loop=False)
            del call  # an index that was replaced is freed with the last of them
        # A request that comes between the last look and this is run by the event loop.
        with self._lock:
            self._idle += 1

    def _run_on_loop(self) -> None:
        """Search for as long as the event loop's other work has taken since the last search.

        So searches get half of the loop's time, even under overload, when refusing requests could
        take all of it. Several in turn run faster, because the processor's caches hold their code.
        """
        began = perf_counter()
        share = max(began - self._share_ended, _SHORTEST_SHARE_SECONDS)
        end = began + min(share, _LONGEST_SHARE_SECONDS)
        while (call := self.queue.next()) is not None:
            is_long = call.request.expected_seconds > _LONGEST_SHARE_SECONDS
            if is_long or began < self._no_call_before:
                loop = asyncio.get_running_loop()
                self._instead_of_loop.submit(self._run_instead, call, loop)
                return
            processor_seconds = -thread_time()
            call.request.run(call, on_loop=True)
            processor_seconds += thread_time()
            self._share_ended = perf_counter()
            if processor_seconds > _LONGEST_SHARE_SECONDS:
                self._no_call_before = self._share_ended + _SECONDS_AFTER_LONG_CALL
            if self._share_ended >= end:
                break
        self._go_on()

    def _run_instead(self, call: NextCall[_Job], loop: asyncio.AbstractEventLoop) -> None:
        """Run a long call on this thread; until it ends, the event loop runs none."""
        call.request.run(call, on_loop=False)
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(self._go_on)

    def _go_on(self) -> None:
        """Run the next calls on the event loop, if there are any."""
        self._loop_is_scheduled = self.queue.waiting > 0
        if self._loop_is_scheduled:
            self._run_after(_TURNS_BETWEEN_SHARES, asyncio.get_running_loop())

    def _run_after(self, turns: int, loop: asyncio.AbstractEventLoop) -> None:
        """Run the next calls after some turns of the event loop, if these do not take too long."""
        if turns and perf_counter() - self._share_ended < _SHORTEST_SHARE_SECONDS:
            loop.call_soon(self._run_after, turns - 1, loop)
        else:
            self._run_on_loop()


class LineExecutor:
    """An executor with its own line, and the threads of another executor."""

    def __init__(self, executor: SearchExecutor) -> None:
        """Share the threads of `executor`."""
        self.threads, self.queue = executor.threads, executor.queue
        self.line: Line[_Job] = Line(executor.line.max_waiting)
        self.map = partial(executor.map, line=self.line)


async def _end_without_answer(job: _Job, receive: Receive) -> None:
    """End `job` when its deadline passes, or earlier when its client leaves."""
    seconds = None if job.deadline == math.inf else job.deadline - perf_counter()
    try:
        async with asyncio.timeout(seconds):
            while (await receive())["type"] != "http.disconnect":
                pass
        job.fail(ClientDisconnect())
    except TimeoutError:
        job.expire()
