import numpy as np
import pytest
import torch

from tests.runs import ListedPassages
from tests.samplers import made
from training.data.positives import KnownPositives
from training.errors import TrainingDataError
from training.objective.negatives import bm25
from training.objective.negatives.bm25 import Bm25Sampler
from training.objective.negatives.sampler import NO_ROW, QueryBatch, Rows

TEXTS = [
    "The volcano erupts lava.",
    "Lava flows from the volcano, lava everywhere.",
    "Bread is baked in an oven.",
    "",
    "A volcano of bread.",
    "Chess pieces.",
]
QUERIES = ["volcano lava", "bread", "quantum", "", "VOLCANO!"]
KNOWN = KnownPositives([[1], [2], [], [], [0, 1, 4]])


class Texts(ListedPassages):
    """Counts the rows that are read at once."""

    def __init__(self, contents: list[str]) -> None:
        super().__init__(contents)
        self.asked: list[int] = []

    def texts(self, rows: Rows) -> list[str]:
        self.asked.append(len(rows))
        return super().texts(rows)


def sampler(texts: list[str], depth: int = 5, per_query: int = 3) -> Bm25Sampler:
    settings = {"per_query": per_query, "depth": depth}
    return made(Bm25Sampler, KNOWN, settings=settings, queries=QUERIES, passages=Texts(texts))


def drawn(sampler: Bm25Sampler) -> list[set[int]]:
    queries = np.arange(len(QUERIES))
    rows = sampler.draw(QueryBatch(queries, queries, torch.zeros(len(queries), 1)))
    return [set(line.tolist()) - {NO_ROW} for line in rows]


def test_negatives_share_a_word_with_the_query_and_are_not_relevant():
    assert drawn(sampler(TEXTS)) == [{0, 4}, {4}, set(), set(), set()]


def test_only_the_best_ranked_are_drawn_after_positives_have_been_set_aside():
    # Passage 1 would rank first for "volcano lava", and 0 is next.
    assert drawn(sampler(TEXTS, depth=1, per_query=1))[0] == {0}


def test_all_of_the_best_are_drawn_equally_often():
    texts = ["volcano " * count + "rock" for count in range(1, 9)]
    sampled = made(
        Bm25Sampler,
        KnownPositives([[0, 7]]),
        settings={"per_query": 2, "depth": 4},
        queries=["volcano"],
        passages=Texts(texts),
    )
    zeros = np.zeros(2000, np.int64)
    counts = np.bincount(
        sampled.draw(QueryBatch(zeros, zeros, torch.zeros(1, 1))).ravel(), minlength=8
    )
    assert np.flatnonzero(counts).tolist() == [3, 4, 5, 6]
    # The standard deviation of each is √500.
    assert (abs(counts[3:7] - 1000) < 90).all()


def test_texts_are_read_in_blocks_and_once(monkeypatch):
    monkeypatch.setattr(bm25, "_READ_PASSAGES", 4)
    reading = sampler(TEXTS)
    reading.prepare(lambda rows: torch.zeros(len(rows), 1))
    drawn(reading)
    drawn(reading)
    assert reading.passages.asked == [4, 2]
    assert drawn(reading)[0] == {0, 4}


def test_passages_without_words_are_refused():
    with pytest.raises(TrainingDataError, match="none of the 3 passages has a word"):
        sampler(["", "  ", "?"]).prepare(lambda rows: torch.zeros(len(rows), 1))
