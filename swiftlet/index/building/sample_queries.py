"""Sample queries for a corpus, made from its passages."""

import numpy as np

from swiftlet.index.documents.writer import StoredCorpus

_FEWEST_WORDS = 5
_MOST_WORDS = 12
# The encoder reads about this number of characters of a truncated document.
_LONGEST_CHARACTERS = 2_000


def sample_queries(corpus: StoredCorpus, count: int, random: np.random.Generator) -> list[str]:
    """`count` short spans of words, each from a random passage.

    Like a query, a span shares words with its passage and is about only a part of it. With whole
    passages as queries, the recall of an index would be overestimated.
    """
    rows = np.sort(random.integers(corpus.num_passages, size=count))
    return [span_of(text, random) for text in corpus.encoder_texts_at(rows)]


def span_of(text: str, random: np.random.Generator) -> str:
    """A short span of words of a passage."""
    words = text[:_LONGEST_CHARACTERS].split()
    length = int(random.integers(_FEWEST_WORDS, _MOST_WORDS + 1))
    start = int(random.integers(max(1, len(words) - length + 1)))
    return " ".join(words[start : start + length])
