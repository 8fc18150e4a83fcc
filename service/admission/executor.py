"""Runs searches on the event loop and on other threads, one at a time on each."""

import asyncio
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Barrier, Lock
from time import perf_counter
from typing import Any, Generic, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from service.admission.fair_queue import FairQueue, NextCall, QueuedRequest
from service.wire.problems import DeadlineError

Argument = TypeVar("Argument")
Result = TypeVar("Result")

DEFAULT_MAX_QUEUED = 256

_PATIENCE_SECONDS = 0.05
"""The check for a disconnected client begins after this time: most answers are ready earlier."""

_SHORTEST_SHARE_SECONDS, _LONGEST_SHARE_SECONDS = 0.005, 0.02
"""How long the event loop searches, if there is so much to do, before it reads requests again."""


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

    def run(self, call: "NextCall[_Job]") -> Callable[[], None]:
        """Run `call` on this thread; returns the function to call on the event loop."""
        began = perf_counter()
        try:
            result = self.function(self.arguments[call.number])
        except BaseException as error:  # noqa: BLE001 - raised again by `SearchExecutor.map`
            # Other threads must not begin further calls of this job.
            self.error, self.deadline = error, -math.inf
            return partial(self.fail, error)
        if self.deadline <= perf_counter():
            return self.expire
        return partial(self._complete, call.number, Completed(result, began, call.queue_seconds))

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
    would hold up the event loop for too long runs on one more thread, in its place.
    """

    def __init__(self, threads: int, *, max_queued: int = DEFAULT_MAX_QUEUED) -> None:
        """Make an executor in which at most `max_queued` calls wait."""
        self.threads = threads
        self.queue: FairQueue[_Job] = FairQueue(max_queued)
        self._pool = ThreadPoolExecutor(max(1, threads - 1), thread_name_prefix="search")
        self._instead_of_loop = ThreadPoolExecutor(1, thread_name_prefix="long-search")
        self._idle = threads - 1
        self._lock = Lock()
        self._loop_is_scheduled = False
        self._share_ended = 0.0

    async def map(
        self,
        function: Callable[[Argument], Result],
        arguments: Sequence[Argument],
        *,
        deadline: float = math.inf,
        expected_seconds: float = 0.0,
        receive: Receive = _never,
    ) -> list[Completed[Result]]:
        """The results of `function` for each of `arguments`, in their order.

        When it ends, also by an error, calls that have not begun are dropped.

        :param deadline: The latest time for all results, as `perf_counter` gives it.
        :param expected_seconds: How long one call will take; cheap calls may overtake.
        :param receive: The request's ASGI channel, which reports that the client has disconnected.
        :raises QueueFullError: When too many calls wait already.
        :raises DeadlineError: When the deadline passes first.
        :raises ClientDisconnect: When the client leaves before the end.
        :raises Exception: The first that `function` raises.
        """
        if not arguments:
            return []
        loop = asyncio.get_running_loop()
        job = _Job(
            len(arguments),
            deadline,
            expected_seconds,
            function=function,
            arguments=arguments,
            answer=loop.create_future(),
        )
        self.queue.put(job)
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
            self.queue.remove(job)
            timer.cancel()
            if watcher is not None:
                watcher.cancel()

    def run_on_every_thread(self, function: Callable[[], object]) -> None:
        """Run `function` on the event loop's thread, which calls this, and on each other thread."""
        together = Barrier(self.threads)  # so that no thread runs it twice

        def run() -> None:
            together.wait()
            function()

        others = [self._pool.submit(run) for _ in range(self.threads - 1)]
        run()
        for other in others:
            other.result()

    def close(self) -> None:
        """Finish the calls under way and end the threads."""
        for pool in (self._pool, self._instead_of_loop):
            pool.shutdown(wait=True, cancel_futures=True)

    def _run_on_thread(self) -> None:
        while (call := self.queue.next()) is not None:
            _run(call)
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
            if call.request.expected_seconds > _LONGEST_SHARE_SECONDS:
                loop = asyncio.get_running_loop()
                self._instead_of_loop.submit(self._run_instead, call, loop)
                return
            call.request.run(call)()
            self._share_ended = perf_counter()
            if self._share_ended >= end:
                break
        self._go_on()

    def _run_instead(self, call: NextCall[_Job], loop: asyncio.AbstractEventLoop) -> None:
        """Run a long call on this thread; until it ends, the event loop runs none."""
        _run(call)
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(self._go_on)

    def _go_on(self) -> None:
        """Run the next calls on the event loop, if there are any."""
        self._loop_is_scheduled = self.queue.waiting > 0
        if self._loop_is_scheduled:
            asyncio.get_running_loop().call_soon(self._run_on_loop)


def _run(call: NextCall[_Job]) -> None:
    """Run a call on this thread, and tell the event loop."""
    tell = call.request.run(call)
    with suppress(RuntimeError):  # the event loop has ended
        call.request.answer.get_loop().call_soon_threadsafe(tell)


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
