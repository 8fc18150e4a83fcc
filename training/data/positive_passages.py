"""Chooses the passage of a long relevant document that a query is paired with."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from training.data.passages import Passages

PositivePassage = Literal["lexical", "first"]

_TERM = re.compile(r"\w+")


def choose_passages(
    passages: Passages,
    queries: Sequence[str],
    pairs: NDArray[np.int64],
    method: PositivePassage,
) -> NDArray[np.int64]:
    """The row of one passage for each pair (n, 2) of a query and a document number, (n,).

    The method "first" takes the first passage. The method "lexical" takes the passage with the
    greatest sum of ln(1 + (N - n + ½)/(n + ½)) over the terms that it shares with the query. This
    is BM25's idf of a term in n of the document's N passages; it needs no model. Of equally good
    passages it takes the first.
    """
    rows = passages.first_rows[pairs[:, 1]]
    long = np.flatnonzero(passages.first_rows[pairs[:, 1] + 1] - rows > 1)
    if method == "first" or not len(long):
        return rows
    unique, inverse = np.unique(pairs[long][:, ::-1], axis=0, return_inverse=True)
    best: list[int] = []
    for document, group in groupby(unique.tolist(), key=lambda pair: pair[0]):
        first_row = int(passages.first_rows[document])
        texts = passages.texts(range(first_row, int(passages.first_rows[document + 1])))
        terms = [_terms(text) for text in texts]
        counts = Counter(term for found in terms for term in found)
        for _, query in group:
            best.append(first_row + _best(_terms(queries[query]), terms, counts))
    rows[long] = np.array(best)[inverse.reshape(-1)]
    return rows


def _best(query: set[str], passages: list[set[str]], counts: Counter[str]) -> int:
    weights = {
        term: math.log(1 + (len(passages) - counts[term] + 0.5) / (counts[term] + 0.5))
        for term in sorted(query)
        if term in counts
    }
    scores = [
        sum(weight for term, weight in weights.items() if term in terms) for terms in passages
    ]
    return scores.index(max(scores))


def _terms(text: str) -> set[str]:
    return set(_TERM.findall(text.casefold()))
