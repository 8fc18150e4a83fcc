"""The words of passages as servers keep them: sparse vectors with BM25 weights."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from swiftlet.index.documents.passages import read_texts
from swiftlet.index.lexical.analysis import analysis_in
from swiftlet.index.lexical.bm25 import SparseVector, passage_vector
from swiftlet.types import Document, Span


class WordVectors:
    """The words of passages as sparse vectors."""

    def __init__(self, details: Mapping[str, Any], mean_length: float) -> None:
        """Weigh words as among passages of `mean_length` words.

        :param details: Those of the manifest of the index.
        """
        self._details, self._mean = details, mean_length
        self._analysis = analysis_in(details)

    def of(self, document: Document, spans: Iterable[Span]) -> Iterator[SparseVector]:
        """The vector of each passage of a document."""
        for text in read_texts(document, spans, self._details):
            yield passage_vector(self._analysis.passage_words(text), self._mean)
