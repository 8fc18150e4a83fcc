"""The scores below which hits of an index are weak."""

from asyncio import Lock
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool


class WeakLines:
    """Measured at the first request, which takes some hundred searches, and kept."""

    def __init__(self) -> None:
        self._measuring = Lock()
        self._found: dict[str, float] | None = None

    async def of(self, measure: Callable[[], dict[str, float]]) -> dict[str, float]:
        """What `measure` gives, which is called once, on a thread."""
        async with self._measuring:
            if self._found is None:
                self._found = await run_in_threadpool(measure)
            return self._found
