"""The threads that search: as many as there are cores, each with one query at a time."""

import asyncio
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from threading import Barrier, Thread
from time import perf_counter
from typing import Any, Generic, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from service.line import Line, Place, Turn
from service.problems import DeadlineError

Argument = TypeVar("Argument")
Result = TypeVar("Result")

DEFAULT_MAX_QUEUED = 256

_PATIENCE_SECONDS = 0.05
"""Until then nobody looks whether a client has left: most answers are there earlier."""

_LONGEST_TURNS_SECONDS = 0.1
"""For which nothing else is done on a core that searching and everything else share."""


async def _silence() -> Message:
    return await asyncio.Future()


@dataclass(frozen=True, slots=True)
class Finished(Generic[Result]):
    """What a function returned, when it began (`perf_counter`), and its wait before that."""

    result: Result
    began: float
    queue_seconds: float


@dataclass(slots=True, eq=False)
class _Job(Place):
    """A request's work: one function, called once for each argument."""

    function: Callable[[Any], Any] = field(kw_only=True)
    arguments: Sequence[Any] = field(kw_only=True)
    answer: asyncio.Future[list[Any]] = field(kw_only=True)
    results: dict[int, Finished[Any]] = field(default_factory=dict)

    def call(self, turn: Turn) -> Callable[[], None]:
        """Do the work of `turn`; what comes back is to be called on the event loop."""
        began = perf_counter()
        try:
            result = self.function(self.arguments[turn.number])
        except BaseException as error:  # noqa: BLE001 - it is raised where it was asked for
            # Other threads are to begin no more of it, before the event loop hears of this.
            self.deadline = -math.inf
            return partial(self.fail, error)
        if self.deadline <= perf_counter():
            return self.expire
        return partial(self._finish, turn.number, Finished(result, began, turn.queue_seconds))

    def fail(self, error: BaseException) -> None:
        """End with `error`, unless there is an end already."""
        if not self.answer.done():
            self.answer.set_exception(error)

    def expire(self) -> None:
        """End because the deadline has passed."""
        self.fail(DeadlineError("the deadline passed before there was an answer"))

    def _finish(self, number: int, finished: Finished[Any]) -> None:
        self.results[number] = finished
        if len(self.results) == self.turns and not self.answer.done():
            self.answer.set_result([self.results[number] for number in range(self.turns)])


class Workers:
    """Runs functions beside the event loop, at most `threads` of them at once, in fair turns."""

    def __init__(self, threads: int, *, max_queued: int = DEFAULT_MAX_QUEUED) -> None:
        """Start the threads; at most `max_queued` calls wait for one."""
        self.threads = threads
        self._line = Line(max_queued)
        # None says that somebody may stand in the line.
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closed = False
        self._threads = [
            Thread(target=self._work, name=f"search-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def queued(self) -> int:
        """How many calls wait for their turn."""
        return self._line.waiting

    async def run(
        self,
        function: Callable[[Argument], Result],
        argument: Argument,
        *,
        deadline: float = math.inf,
        receive: Receive = _silence,
    ) -> Finished[Result]:
        """As `run_each`, for one argument."""
        (finished,) = await self.run_each(function, [argument], deadline=deadline, receive=receive)
        return finished

    async def run_each(
        self,
        function: Callable[[Argument], Result],
        arguments: Sequence[Argument],
        *,
        deadline: float = math.inf,
        receive: Receive = _silence,
    ) -> list[Finished[Result]]:
        """The results of `function` for each of `arguments`, in their order.

        However it ends, what has not begun by then never will.

        :param deadline: The latest time for all of it, as `perf_counter` gives it.
        :param receive: Where the client of a request says that it has left.
        :raises QueueFullError: When too much is waiting already.
        :raises DeadlineError: When the deadline passes first.
        :raises ClientDisconnect: When the client leaves while its work is waiting.
        :raises Exception: The first that `function` raises.
        """
        if not arguments:
            return []
        loop = asyncio.get_running_loop()
        job = _Job(
            len(arguments),
            deadline,
            function=function,
            arguments=arguments,
            answer=loop.create_future(),
        )
        self._line.join(job)
        self._summon(len(arguments))
        watcher: asyncio.Task[None] | None = None

        def watch() -> None:
            nonlocal watcher
            watcher = loop.create_task(_end_without_answer(job, receive))

        timer = loop.call_later(min(_PATIENCE_SECONDS, deadline - perf_counter()), watch)
        try:
            return await job.answer
        finally:
            self._line.leave(job)
            timer.cancel()
            if watcher is not None:
                watcher.cancel()

    def run_on_every_thread(self, function: Callable[[], object]) -> None:
        """Run `function` once on each thread, and wait: whatever a thread sets up is set up."""
        everyone = Barrier(self.threads)
        ends: list[Future[None]] = [Future() for _ in self._threads]

        def run(end: Future[None]) -> None:
            everyone.wait()
            try:
                function()
            except BaseException as error:  # noqa: BLE001 - it is raised where it was asked for
                end.set_exception(error)
            else:
                end.set_result(None)

        for end in ends:
            self._calls.put(partial(run, end))
        for end in ends:
            end.result()

    def close(self) -> None:
        """Finish what has begun and end the threads."""
        self._closed = True
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join()

    def _summon(self, turns: int) -> None:
        """Have so many turns taken."""
        for _ in range(turns):
            self._calls.put(None)

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            if self._closed:
                return
            # No variable of this loop may hold a job: an index is given back with its last one.
            (call or self._take_turn)()
            del call

    def _take_turn(self) -> None:
        job, answer_on_loop = self._next()
        if job is not None:
            with suppress(RuntimeError):  # the event loop has ended, and nobody waits any more
                job.answer.get_loop().call_soon_threadsafe(answer_on_loop)

    def _next(self) -> tuple[_Job | None, Callable[[], None]]:
        """Do the work of whoever is next, if anybody is, and say what the event loop is to call."""
        turn = self._line.next()
        if turn is None:
            return None, _nothing
        job = turn.place
        assert isinstance(job, _Job)  # noqa: S101 - nothing else joins
        return job, job.call(turn)


class LoopWorker(Workers):
    """Runs functions on the event loop itself, one turn at a time, for a service of one core.

    There, a thread of its own could work only while the event loop waits, and the two would take
    the core and the interpreter from each other several times a request. Requests are still read,
    and those that are too many refused, between any two turns.
    """

    def __init__(self, *, max_queued: int = DEFAULT_MAX_QUEUED) -> None:
        """Start no thread; at most `max_queued` calls wait."""
        super().__init__(0, max_queued=max_queued)
        self.threads = 1
        self._summoned = False
        self._ended = 0.0

    def run_on_every_thread(self, function: Callable[[], object]) -> None:
        """Run `function` on this thread, which is the one that everything runs on."""
        function()

    def _summon(self, turns: int) -> None:  # noqa: ARG002 - it takes turns until nobody waits
        if not self._summoned:
            self._summoned = True
            self._ended = perf_counter()
            asyncio.get_running_loop().call_soon(self._take_turns)

    def _take_turns(self) -> None:
        """One turn, or as many as take as long as everything else since the last one ended.

        So half of the time is left for searching even where to refuse takes all there is.
        """
        began = perf_counter()
        end = began + min(began - self._ended, _LONGEST_TURNS_SECONDS)
        try:
            while True:
                _, answer = self._next()
                answer()
                self._ended = perf_counter()
                if not self._line.waiting or self._ended >= end:
                    break
        finally:
            self._summoned = bool(self._line.waiting)
            if self._summoned:
                asyncio.get_running_loop().call_soon(self._take_turns)


def _nothing() -> None:
    pass


def make_workers(threads: int, *, max_queued: int) -> Workers:
    """What suits so many cores; at most `max_queued` calls wait."""
    if threads == 1:
        return LoopWorker(max_queued=max_queued)
    return Workers(threads, max_queued=max_queued)


async def _end_without_answer(job: _Job, receive: Receive) -> None:
    """End `job` when its deadline passes, or before that when its client leaves."""
    seconds = None if job.deadline == math.inf else job.deadline - perf_counter()
    try:
        async with asyncio.timeout(seconds):
            while (await receive())["type"] != "http.disconnect":
                pass
        job.fail(ClientDisconnect())
    except TimeoutError:
        job.expire()
