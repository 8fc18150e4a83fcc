"""What the benchmarks ask: real queries, and real words of any length."""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from retrieval.collections import read_queries

_QUERY_SEED = 5


def sample_queries(collection: Path, count: int) -> list[str]:
    """Queries of a collection, each as likely as any other."""
    queries = read_queries(collection)
    chosen = np.random.default_rng(_QUERY_SEED).choice(len(queries), count, replace=False)
    return [queries[number].text for number in chosen]


def texts_of_lengths(texts: Sequence[str], longest: int, count: int) -> list[str]:
    """Parts of `texts` of 1 to `longest` characters, short ones as often as long ones.

    Lengths are spread evenly over their logarithm; each part begins with a word.
    """
    words = " ".join(texts).split()
    random_numbers = random.Random(_QUERY_SEED)
    parts = []
    for _ in range(count):
        characters = round(longest ** random_numbers.random())
        first = random_numbers.randrange(len(words))
        # A word and the space before it have two characters at least.
        around = (words[first:] + words)[: characters // 2 + 1]
        parts.append(" ".join(around)[:characters].strip())
    return parts
