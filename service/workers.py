"""What searches: the event loop and threads beside it, each with one query at a time."""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from threading import Thread
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
    error: BaseException | None = None

    def call(self, turn: Turn) -> Callable[[], None]:
        """Do the work of `turn`; what comes back is to be called on the event loop."""
        began = perf_counter()
        try:
            result = self.function(self.arguments[turn.number])
        except BaseException as error:  # noqa: BLE001 - it is raised where it was asked for
            # Other threads are to begin no more of it, before the event loop hears of this; and
            # what they have begun may end before it does.
            self.error, self.deadline = error, -math.inf
            return partial(self.fail, error)
        if self.deadline <= perf_counter():
            return self.expire
        return partial(self._finish, turn.number, Finished(result, began, turn.queue_seconds))

    def fail(self, error: BaseException) -> None:
        """End with `error`, unless there is an end already."""
        if not self.answer.done():
            self.answer.set_exception(error)

    def expire(self) -> None:
        """End because the deadline has passed, or seems to since other work of it has failed."""
        self.fail(self.error or DeadlineError("the deadline passed before there was an answer"))

    def _finish(self, number: int, finished: Finished[Any]) -> None:
        self.results[number] = finished
        if len(self.results) == self.turns and not self.answer.done():
            self.answer.set_result([self.results[number] for number in range(self.turns)])


class Workers:
    """Runs functions on the event loop and on threads beside it, one on each, in fair turns.

    A thread that rests is asked first, so that the event loop goes on reading requests; where none
    does, the event loop takes the next turn itself. With a thread for each core and one more for
    the event loop, there would be more to run than cores, and each would wait for the interpreter
    that another one has: under overload, for refusals nearly all of the time. Alone on one core,
    the event loop does all of it, and nothing is handed to and fro.
    """

    def __init__(self, threads: int, *, max_queued: int = DEFAULT_MAX_QUEUED) -> None:
        """Start `threads` - 1 of them beside the event loop; at most `max_queued` calls wait."""
        self.threads = threads
        self._line = Line(max_queued)
        self._loop_is_summoned = False
        self._last_turn_ended = 0.0
        self._closed = False
        # What each of the threads beside the event loop waits for: None stands for turns to take.
        self._calls: list[SimpleQueue[Callable[[], None] | None]] = [
            SimpleQueue() for _ in range(threads - 1)
        ]
        self._resting = deque(self._calls)
        self._threads = [
            Thread(target=self._work, args=[calls], name=f"search-{number}", daemon=True)
            for number, calls in enumerate(self._calls)
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
        self._summon(job.turns)
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
        """Run `function` on this thread, the event loop's, and on each of the others, and wait.

        Whatever a thread sets up is set up then.
        """
        ends: list[Future[object]] = [Future() for _ in self._calls]
        for calls, end in zip(self._calls, ends, strict=True):
            calls.put(partial(_settle, end, function))
        function()
        for end in ends:
            end.result()

    def close(self) -> None:
        """Finish what has begun and end the threads."""
        self._closed = True
        for calls in self._calls:
            calls.put(None)
        for thread in self._threads:
            thread.join()

    def _summon(self, turns: int) -> None:
        """Have so many turns taken."""
        for _ in range(turns):
            try:
                calls = self._resting.pop()
            except IndexError:
                break
            calls.put(None)
        else:
            return
        if not self._loop_is_summoned:
            self._loop_is_summoned = True
            self._last_turn_ended = perf_counter()
            asyncio.get_running_loop().call_soon(self._take_turns_on_loop)

    def _work(self, calls: "SimpleQueue[Callable[[], None] | None]") -> None:
        while True:
            call = calls.get()
            if self._closed:
                return
            if call is not None:
                call()
                del call
                continue
            self._take_turns_beside_loop()
            # Whoever joins the line between its last turn and this finds nobody who rests, and
            # summons the event loop.
            self._resting.append(calls)

    def _take_turns_beside_loop(self) -> None:
        # No variable of a thread that rests may hold a job: an index is given back with its last.
        while (turn := self._line.next()) is not None:
            job, tell = _take(turn)
            with suppress(RuntimeError):  # the event loop has ended, and nobody waits any more
                job.answer.get_loop().call_soon_threadsafe(tell)

    def _take_turns_on_loop(self) -> None:
        """One turn, or as many as take as long as everything else since the last one ended.

        So half of the time is left for searching even where to refuse takes all there is.
        """
        began = perf_counter()
        end = began + min(began - self._last_turn_ended, _LONGEST_TURNS_SECONDS)
        try:
            while (turn := self._line.next()) is not None:
                _, tell = _take(turn)
                tell()
                self._last_turn_ended = perf_counter()
                if self._last_turn_ended >= end:
                    break
        finally:
            self._loop_is_summoned = self._line.waiting > 0
            if self._loop_is_summoned:
                asyncio.get_running_loop().call_soon(self._take_turns_on_loop)


def _take(turn: Turn) -> tuple[_Job, Callable[[], None]]:
    """Do the work of `turn`, and say whose it was and what the event loop is to call."""
    job = turn.place
    assert isinstance(job, _Job)  # noqa: S101 - nothing else joins
    return job, job.call(turn)


def _settle(end: Future[object], function: Callable[[], object]) -> None:
    """Give `end` what `function` returns or raises."""
    try:
        end.set_result(function())
    except BaseException as error:  # noqa: BLE001 - it is raised where it was asked for
        end.set_exception(error)


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
