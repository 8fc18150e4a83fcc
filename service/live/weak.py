"""The scores below which hits of an index are weak."""

from asyncio import Lock
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from swiftlet.search.weak import weak_below

if TYPE_CHECKING:
    from service.live.state import LoadedIndex


class WeakLines:
    """Measured at the first request, which takes some hundred searches, and kept."""

    def __init__(self) -> None:
        self._measuring = Lock()
        self._found: dict[str, float] | None = None

    async def of(self, loaded: "LoadedIndex") -> dict[str, float]:
        """As `weak_below`, of the index that has these lines."""
        async with self._measuring:
            if self._found is None:
                self._found = await run_in_threadpool(_measured, loaded)
            return self._found


def _measured(loaded: "LoadedIndex") -> dict[str, float]:
    # The index stays open as long as `loaded` is referred to.
    return weak_below(loaded.searcher)
