"""What a push needs of a server: a collection that is written, checked and searched."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from swiftlet.address import Address
from swiftlet.errors import InvalidArgumentError, shown
from swiftlet.index.columns.columns import field_of, keys_of
from swiftlet.index.documents.passages import read_texts
from swiftlet.index.documents.split import SplitDocument
from swiftlet.index.lexical.analysis import PIECES, Analysis, analysis_in
from swiftlet.progress import Progress
from swiftlet.servers.sources import Source
from swiftlet.servers.state import PushState
from swiftlet.types import Embeddings


class Target(ABC):
    """A collection that is being pushed."""

    server: ClassVar[str]
    index_types: ClassVar[Sequence[str]]

    def __init__(self, address: Address) -> None:
        """Connect to the server.

        :raises IndexServerError: When it does not answer.
        :raises InvalidArgumentError: When it refuses.
        """
        self.address = address
        self._analysis: Analysis | None = None
        self._num_words = self._num_passages = 0

    @property
    def mean_length(self) -> float | None:
        """The mean of checked passages in words, at least 1; None without words."""
        if self._analysis is None:
            return None
        return max(1.0, self._num_words / max(1, self._num_passages))

    def reason_against_words(self, details: Mapping[str, Any]) -> str:
        """Why the collection cannot have words, as the part of a sentence; empty if it can.

        :param details: Those of the manifest of the index.
        """
        if (language := details.get("language")) is None:
            return "the index has no words"
        if language in PIECES:
            return f"words of the language {language!r} cannot be pushed"
        if not (reason := self.lacks_words()):
            self._analysis = analysis_in(details)
        return reason

    def lacks_words(self) -> str:
        """Why the server cannot have words; empty if it can."""
        return ""

    @abstractmethod
    def begun(self) -> PushState | None:
        """What is there; None if nothing is.

        :raises InvalidArgumentError: When it is of another program.
        """

    def check(self, source: Source, progress: Progress) -> int:
        """The number of passages, after each document was checked.

        :raises InvalidArgumentError: When the server cannot hold a document, or no document has one
            of the new facets.
        """
        progress.begin("Checking documents", None)
        missing = {*source.new_facets}
        for document in source.documents():
            self.check_document(document)
            if missing:
                missing -= {*map(field_of, keys_of(document.metadata))}
            self._num_passages += len(document.passages)
            if self._analysis is not None:
                for text in read_texts(document, document.passages, source.manifest.details):
                    self.count_words(self._analysis.passage_words(text))
        if missing:
            raise InvalidArgumentError(
                f"the facet is {shown(min(missing))}, but no document has a value of it"
            )
        return self._num_passages

    def count_words(self, words: Sequence[str]) -> None:
        """Count the words of a passage."""
        self._num_words += len(words)

    @abstractmethod
    def check_document(self, document: SplitDocument) -> None:
        """Look at a document before the collection is made.

        :raises InvalidArgumentError: When the server cannot hold it.
        """

    @abstractmethod
    def create(self, source: Source, progress: Progress) -> None:
        """Make the collection, in the place of an earlier one."""

    @abstractmethod
    def write(self, source: Source, total: int, done: int, progress: Progress) -> None:
        """Write the passages after the first `done` ones of `total`."""

    @abstractmethod
    def index(self, total: int, index_type: str | None, progress: Progress) -> None:
        """Have the server index all passages, as far as it has not done so before."""

    @abstractmethod
    def count(self) -> int:
        """The number of passages."""

    @abstractmethod
    def sample(self, count: int) -> list[tuple[str, str, str, Embeddings]]:
        """Title, text, heading and embedding (dim,) of `count` passages from all parts, or all."""

    @property
    @abstractmethod
    def efforts(self) -> tuple[int, int] | None:
        """The least and the most that a search can visit; None if it compares every passage."""

    @abstractmethod
    def search(self, queries: Embeddings, count: int, effort: int) -> list[list[float]]:
        """For each of `queries` (q, dim), the scores of the nearest passages, best first."""

    @abstractmethod
    def set_state(self, state: str, effort: int | None = None) -> None:
        """Note how far the push is, and how much a search visits."""
