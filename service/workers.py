"""The threads that search: as many as there are cores, each with one query at a time."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from time import perf_counter
from typing import Generic, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Argument = TypeVar("Argument")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Finished(Generic[Result]):
    """What a function returned, and how many seconds it waited for a thread."""

    result: Result
    queue_seconds: float


class Workers:
    """Runs functions beside the event loop, at most `threads` of them at once, in turn."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        # A batch leaves half of the threads to others, who would wait behind all of it otherwise.
        self._batch_share = max(1, threads // 2)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="search")

    async def run(
        self,
        function: Callable[Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Finished[Result]:
        """Call `function` on a worker thread; what it raises is raised here."""
        submitted = perf_counter()

        def call() -> Finished[Result]:
            queue_seconds = perf_counter() - submitted
            return Finished(function(*args, **kwargs), queue_seconds)

        return await asyncio.wrap_future(self._pool.submit(call))

    async def run_each(
        self, function: Callable[[Argument], Result], arguments: Sequence[Argument]
    ) -> list[Finished[Result]]:
        """The results of `function` for each of `arguments`, in their order.

        :raises Exception: The first that `function` raises; what has not begun then never will.
        """
        results: dict[int, Finished[Result]] = {}
        waiting = iter(enumerate(arguments))

        async def work() -> None:
            for position, argument in waiting:
                results[position] = await self.run(function, argument)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._batch_share, len(arguments))):
                    group.create_task(work())
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [results[position] for position in range(len(arguments))]

    def run_on_every_thread(self, function: Callable[[], object]) -> None:
        """Run `function` once on each thread, and wait: whatever a thread sets up is set up."""
        everyone = Barrier(self.threads)

        def run() -> None:
            everyone.wait()
            function()

        for future in [self._pool.submit(run) for _ in range(self.threads)]:
            future.result()

    def close(self) -> None:
        """Finish what has begun and end the threads."""
        self._pool.shutdown(cancel_futures=True)
