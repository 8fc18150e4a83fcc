"""The words of passages as servers keep them: sparse vectors with BM25 weights."""

from swiftlet.index.documents.passages import encoder_text
from swiftlet.index.lexical.analysis import Analysis
from swiftlet.index.lexical.bm25 import SparseVector, passage_vector


class WordVectors:
    """The words of passages as sparse vectors."""

    def __init__(self, analysis: Analysis, mean_length: float) -> None:
        """Weigh words as among passages of `mean_length` words."""
        self._analysis, self._mean = analysis, mean_length

    def of(self, title: str, text: str) -> SparseVector:
        """The vector of a passage."""
        return passage_vector(words_of(self._analysis, title, text), self._mean)


def words_of(analysis: Analysis, title: str, text: str) -> list[str]:
    """The words of a passage, with repetitions."""
    return analysis.passage_words(encoder_text(title, text))
