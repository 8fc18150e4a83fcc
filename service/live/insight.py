"""Reads the query log in another process, so that no search waits for it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from swiftlet.processors.low_priority import LowPriorityProcess
from swiftlet.relevance.report import read_report
from swiftlet.relevance.tables import plot_of, sentences_of, tables_of
from swiftlet.search.searcher import Searcher


class Insight:
    """The report on a query log, made anew each time that it is asked for."""

    def __init__(self, log: Path, open_searcher: Callable[[], Searcher]) -> None:
        """Read the folder `log`; `open_searcher` is called in the other process."""
        self._arguments = log, open_searcher
        self._process = LowPriorityProcess("insight")
        self._thread = ThreadPoolExecutor(1, "insight")

    async def report(self) -> dict[str, Any]:
        """Its sentences, tables and plot.

        :raises RetrievalError: When the log or the index cannot be read.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read)

    def close(self) -> None:
        """End a report under way."""
        self._process.close()
        self._thread.shutdown(cancel_futures=True)

    def _read(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = self._process.call(_read, *self._arguments)
        finally:
            self._process.end()  # which frees its memory
        return found


def _read(log: Path, open_searcher: Callable[[], Searcher]) -> dict[str, Any]:
    with closing(open_searcher()) as searcher:
        report = read_report(log, searcher)
    return {
        "sentences": sentences_of(report),
        "tables": [each._asdict() for each in tables_of(report)],
        "plot": plot_of(report.periods),
    }
