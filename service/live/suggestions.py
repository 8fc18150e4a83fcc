"""Titles that are suggested while a query is typed."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from service.wire.problems import DeadlineError
from swiftlet.index.lexical.titles import TitleIndex
from swiftlet.search.searcher import Searcher

MOST_DOCUMENTS = 1_000_000
"""In larger indexes no titles are suggested; docs/decisions/service.md has what this many take."""

logger = logging.getLogger(__name__)


class Suggestions:
    """The titles of a searcher's documents, which the first request reads on a thread of its own.

    A request after a change of the index waits until the titles of the changed index are read.
    """

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher
        self._thread = ThreadPoolExecutor(1, "titles")
        self._closed = False
        self._generation = ""
        self._titles: TitleIndex | None = None

    async def titles(self, deadline: float) -> TitleIndex | None:
        """The titles as they are now; None if the index is too large or on another machine.

        :raises DeadlineError: When they have not been read in time.
        """
        if self._generation != self._searcher.generation:
            try:
                async with asyncio.timeout(deadline - perf_counter()):
                    await asyncio.wrap_future(self._thread.submit(self._follow))
            except TimeoutError:
                raise DeadlineError(
                    "the titles of the documents are still being read: ask again later"
                ) from None
        return self._titles

    def close(self) -> None:
        """End the thread soon, also while it reads titles."""
        self._closed = True
        self._thread.shutdown(cancel_futures=True)

    def _follow(self) -> None:
        generation = self._searcher.generation
        if generation == self._generation:
            return
        parts = self._searcher.parts  # they keep the store open
        base = parts.store.base
        if base is None or parts.store.num_documents > MOST_DOCUMENTS:
            if base is not None and not self._generation:
                logger.warning(
                    "no titles are suggested: the index has %d documents, more than %d",
                    parts.store.num_documents,
                    MOST_DOCUMENTS,
                )
            self._titles = None
        else:
            if self._titles is None or self._titles.base is not base:
                self._titles = None  # so that its memory is free
                self._titles = TitleIndex(base, lambda: not self._closed)
            self._titles.follow(parts.store.changed)
        self._generation = generation
