"""An index at one moment, and the searches of it, stage by stage."""

from collections.abc import Sequence
from time import perf_counter

from swiftlet.index.parts import SearchParts
from swiftlet.search.stages.state import SearchState, Stage
from swiftlet.types import SearchResult

_WIDENING = 4
"""The factor by which the candidates grow while a search is not complete."""


class Generation:
    """What all stages of a search see: the index at one moment. Thread-safe."""

    def __init__(self, name: str, parts: SearchParts, stages: Sequence[type[Stage]]) -> None:
        self.name = name
        self.parts = parts
        self._stages = tuple(stage(parts) for stage in stages)
        repeating = [number for number, stage in enumerate(stages) if stage.repeats]
        self._repeat_start, self._repeat_end = repeating[0], repeating[-1] + 1

    def search(self, search: SearchState) -> SearchResult:
        """Run the stages."""
        seconds = self._run(search)
        num_reranked = len(search.rerank_scores)
        return SearchResult(search.hits, seconds, search.cached, self.name, num_reranked)

    def _run(self, search: SearchState) -> tuple[float, ...]:
        """Run the stages, those that repeat until the search is complete; seconds of each."""
        seconds = [0.0] * len(self._stages)
        last = perf_counter()
        position = 0
        while position < len(self._stages):
            had_work = self._stages[position].run(search)
            now = perf_counter()
            if had_work:
                seconds[position] += now - last
            last = now
            position += 1
            if position == self._repeat_end:
                if search.is_complete:
                    # Filters and lexical searches leave fewer documents.
                    search.num_wanted = min(search.num_wanted, len(search.documents.rows))
                else:
                    search.num_candidates *= _WIDENING
                    position = self._repeat_start
        return tuple(seconds)
