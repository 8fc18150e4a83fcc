"""About how long searches take, so that none begins which cannot be answered in time."""

from dataclasses import dataclass

from swiftlet.search.request import SearchRequest
from swiftlet.search.searcher import Searcher


@dataclass(frozen=True, slots=True)
class SearchCost:
    """The seconds that parts of a search take, on the slower of the machines that we measure on.

    They are estimates: the executor learns how long the searches of its queue really take, and adds
    these to what an ordinary search takes.
    """

    per_character: float = 0.000004
    """Each character of a text that is read for its tokens and words."""

    per_hit: float = 0.00005
    """Each further document of an answer: its title, its metadata and its passage are read."""

    searches_per_group: int = 2
    """Groups are found by searches with filters, about two for each document of a group."""

    per_sentence: float = 0.003
    """Finding the sentence of a passage that is nearest: each of its sentences is encoded."""

    most_sentences: int = 50
    """A request for the nearest sentences of more passages is refused."""

    beside_loop: float = 0.021
    """What takes as long as stored texts or a model need: more than the event loop may run."""

    last_pair: float = 0.05
    """A pair of query and passage may take the re-ranker longer than expected: a search that was
    found may be answered this much later."""

    def of(self, asked: SearchRequest, searcher: Searcher) -> tuple[float, float]:
        """The seconds of a search beyond an ordinary one, and for which it may be late."""
        seconds = (asked.offset + asked.top_k) * self.per_hit + searcher.waiting_seconds
        if asked.group_by is not None:
            seconds *= self.searches_per_group * asked.group_size
        seconds += len(asked.query) * self.per_character
        if asked.highlight == "sentence":
            seconds += asked.top_k * self.per_sentence
        if asked.rerank is None or searcher.reranker is None:
            return seconds, 0.0
        seconds += self.beside_loop + asked.rerank * searcher.reranker.seconds
        return seconds, self.last_pair


COST = SearchCost()
