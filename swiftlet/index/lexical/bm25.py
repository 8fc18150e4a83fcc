"""BM25 as the product of two sparse vectors: a passage's and a query's.

The scores are as in tantivy, so that an engine with sparse vectors ranks as a lexical index.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b

from swiftlet.index.lexical.index import Words
from swiftlet.index.lexical.postings import K1, length_norm, stored_length

SparseVector = Mapping[int, float]
"""Values by place; all other values are 0."""

NO_WORD = 0
"""The place that passages without words have, since some engines refuse an empty vector."""

_PLACES = 2**32 - 2


@lru_cache(2**18)
def word_place(word: str) -> int:
    """The place of a word: 32 bits of a hash. No word has place 0."""
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest()) % _PLACES + 1


def passage_vector(words: Sequence[str], mean_length: float) -> SparseVector:
    """The vector of a passage with these words, among passages of `mean_length` words."""
    norm = length_norm(stored_length(len(words)), mean_length)
    found = {
        word_place(word): (1 + K1) * count / (count + norm)
        for word, count in Counter(words).items()
    }
    return found or {NO_WORD: 1.0}


def query_vector(words: Words) -> SparseVector:
    """The vector of a query: each searched word's share of the weight of all words."""
    return {word_place(word): words.weights[word] / words.weight for word in words.searched}
