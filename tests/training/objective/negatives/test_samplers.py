"""Tests for all samplers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.runs import ListedPassages
from tests.samplers import made, normalised
from training.companions.adore import DynamicSampler
from training.data.positives import KnownPositives
from training.loop.checkpoints import read_checkpoint, write_checkpoint
from training.objective.negatives.bm25 import Bm25Sampler
from training.objective.negatives.cache import NegativeCache
from training.objective.negatives.mined import MinedSampler
from training.objective.negatives.sampler import (
    NO_ROW,
    MixedSampler,
    NamedSampler,
    NegativeSampler,
    QueryBatch,
    Rows,
)
from training.objective.negatives.simple import GivenSampler, InBatchSampler, UniformSampler

DIM = 8
NUM_PASSAGES = 60
NUM_QUERIES = 20
PER_QUERY = 6


DOCUMENTS = normalised(NUM_PASSAGES, 1)
QUERIES = normalised(NUM_QUERIES, 2)
# Query 0 has one positive, query 7 eight; neighbours share some.
POSITIVES = [
    [(5 * query + step) % NUM_PASSAGES for step in range(query % 8 + 1)]
    for query in range(NUM_QUERIES)
]
WORDS = ["ash", "bread", "chess", "dune", "elm", "fog", "gold"]


# Each word is in about half of the passages.
PASSAGES = ListedPassages(
    [
        " ".join(word for bit, word in enumerate(WORDS) if (row * 37 + 11) >> bit & 1)
        for row in range(NUM_PASSAGES)
    ]
)
QUERY_TEXTS = [" ".join((WORDS[query % 7], WORDS[query % 5])) for query in range(NUM_QUERIES)]

Make = Callable[..., NegativeSampler]


def making(
    kind: type[NamedSampler], settings: Callable[[int], dict[str, Any]], **inputs: Any
) -> Make:
    """Makes samplers of a kind for known positives, a seed and a number of negatives a query."""

    def make(known: KnownPositives, seed: int, per_query: int = PER_QUERY) -> NegativeSampler:
        of_kind = {"per_query": per_query, **settings(per_query)}
        return made(
            kind, known, **{"num_passages": NUM_PASSAGES} | inputs, settings=of_kind, seed=seed
        )

    return make


def encode(rows: Rows) -> torch.Tensor:
    return DOCUMENTS[rows]


def of_cache(fraction: float) -> dict[str, Any]:
    return {"cache_fraction": fraction, "refresh_fraction": 0.2, "gradient": "cached"}


PAIRS = np.array(
    [(query, row) for query in range(NUM_QUERIES) for row in range(-1, NUM_PASSAGES, 2)]
)
SCORED = {"width": DIM, "scale": 5.0}

MAKERS: dict[str, Make] = {
    "in_batch": making(InBatchSampler, lambda _: {}),
    "dynamic": making(DynamicSampler, lambda _: {}, encode_passages=encode),
    "uniform": making(UniformSampler, lambda _: {}),
    "bm25": making(Bm25Sampler, lambda _: {"depth": 70}, queries=QUERY_TEXTS, passages=PASSAGES),
    "mined": making(
        MinedSampler,
        lambda per_query: {"depth": max(20, per_query), "refresh_every": 2},
        encode_queries=lambda queries: QUERIES[queries],
    ),
    "cache": making(NegativeCache, lambda _: of_cache(0.5), **SCORED),
    "full_cache": making(NegativeCache, lambda _: of_cache(1.0), **SCORED),
    "given": making(GivenSampler, lambda _: {}, pairs=PAIRS, given_negatives=PAIRS[:, 1]),
}


def mixed(known: KnownPositives, seed: int, per_query: int = PER_QUERY) -> NegativeSampler:
    parts = ("cache", "in_batch", "uniform")
    return MixedSampler([MAKERS[name](known, seed, per_query) for name in parts])


MAKERS["mixed"] = mixed


@pytest.fixture(params=MAKERS)
def name(request) -> str:
    return request.param


@pytest.fixture
def make(name) -> Make:
    return MAKERS[name]


def batches(count: int) -> list[QueryBatch]:
    """Batches of eight queries, each with one of its positives."""
    random = np.random.default_rng(3)
    drawn = []
    for _ in range(count):
        queries = random.choice(NUM_QUERIES, 8, replace=False)
        positives = np.array([random.choice(POSITIVES[query]) for query in queries])
        drawn.append(QueryBatch(queries, positives, QUERIES[queries]))
    return drawn


def steps(sampler: NegativeSampler, given: list[QueryBatch]) -> list[Rows]:
    """The calls of a training run, with encoders that change from step to step."""
    drawn = []
    for number, batch in enumerate(given):
        rows = sampler.draw(batch)
        drawn.append(rows)
        turned = (1 + 0.1 * number) * DOCUMENTS.roll(number, dims=1)
        seen = np.unique(np.concatenate((rows.ravel(), batch.positives)))
        seen = seen[seen != NO_ROW]
        sampler.update(seen, turned[seen])
        sampler.refresh(lambda rows, turned=turned: turned[rows])
    return drawn


def test_no_sampler_draws_a_known_positive_or_a_row_twice(make):
    sampler = make(KnownPositives(POSITIVES), 0)
    sampler.prepare(encode)
    given = batches(30)
    for batch, rows in zip(given, steps(sampler, given), strict=True):
        assert rows.dtype == np.int64
        for query, line in zip(batch.queries, rows.tolist(), strict=True):
            negatives = [row for row in line if row != NO_ROW]
            assert negatives
            assert len(set(negatives)) == len(negatives)
            assert not set(negatives) & set(POSITIVES[query])
            assert 0 <= min(negatives) <= max(negatives) < NUM_PASSAGES


def test_every_sampler_draws_equally_many_for_each_query(name, make):
    sampler = make(KnownPositives(POSITIVES), 0)
    sampler.prepare(encode)
    width = {"in_batch": 8, "mixed": 2 * PER_QUERY + 8}.get(name, PER_QUERY)
    assert {rows.shape for rows in steps(sampler, batches(3))} == {(8, width)}


def test_every_sampler_draws_the_same_for_the_same_seed(make):
    samplers = [make(KnownPositives(POSITIVES), 5) for _ in range(2)]
    for sampler in samplers:
        sampler.prepare(encode)
    once, again = (np.array(steps(sampler, batches(6))) for sampler in samplers)
    assert (once == again).all()


@pytest.mark.parametrize("name", sorted(MAKERS.keys() - {"in_batch", "dynamic"}))
def test_every_random_sampler_draws_other_rows_for_another_seed_and_in_the_next_step(make):
    samplers = [make(KnownPositives(POSITIVES), seed) for seed in (5, 6)]
    for sampler in samplers:
        sampler.prepare(encode)
    batch = batches(1)[0]
    first, other, second = (sampler.draw(batch) for sampler in (*samplers, samplers[0]))
    assert (np.sort(first, axis=1) != np.sort(other, axis=1)).any()
    assert (np.sort(first, axis=1) != np.sort(second, axis=1)).any()


@pytest.mark.parametrize("interrupted_after", [0, 3])
def test_every_sampler_continues_from_a_checkpoint_as_if_never_interrupted(
    make, interrupted_after, tmp_path
):
    sampler = make(KnownPositives(POSITIVES), 0)
    sampler.prepare(encode)
    steps(sampler, batches(interrupted_after))
    write_checkpoint(tmp_path / "checkpoint", state := sampler.state(), dim=DIM)
    expected = np.array(steps(sampler, batches(7)))
    for kept in (state, read_checkpoint(tmp_path / "checkpoint")):
        resumed = make(KnownPositives(POSITIVES), 0)
        resumed.restore(kept)
        assert (np.array(steps(resumed, batches(7))) == expected).all()


def test_every_sampler_marks_missing_rows(name, make):
    # Nothing but row 3 is left for query 0; query 1 has all.
    known = KnownPositives([[row for row in range(NUM_PASSAGES) if row != 3], []])
    sampler = make(known, 0, per_query=NUM_PASSAGES + 5)
    sampler.prepare(encode)
    batch = QueryBatch(np.array([0, 1]), np.array([1, 2]), QUERIES[:2])
    rows = sampler.draw(batch)
    assert set(rows[0].tolist()) <= {3, NO_ROW}
    found = rows[1][rows[1] != NO_ROW]
    assert len(set(found.tolist())) == len(found)
    most = {"in_batch": 1, "bm25": 59, "cache": 30, "given": 30}.get(name, NUM_PASSAGES)
    assert 0 < len(found) <= most
    assert (rows[1] == NO_ROW).any()


def test_every_sampler_draws_nothing_for_an_empty_batch(make):
    sampler = make(KnownPositives(POSITIVES), 0)
    sampler.prepare(encode)
    nothing = np.empty(0, dtype=np.int64)
    assert len(sampler.draw(QueryBatch(nothing, nothing, QUERIES[:0]))) == 0


def test_every_sampler_returns_the_kept_embeddings_of_drawn_rows(name, make):
    sampler = make(KnownPositives(POSITIVES), 0)
    sampler.prepare(encode)
    rows = sampler.draw(batches(1)[0])
    drawn = rows[rows != NO_ROW]
    kept = sampler.cached(drawn)
    if name in {"cache", "full_cache"}:
        assert (kept == DOCUMENTS[drawn]).all()
    elif name == "mixed":
        known = ~kept.isnan().any(dim=1)
        assert (kept[known] == DOCUMENTS[drawn][known]).all()
        assert 0 < known.sum() < len(drawn)
    else:
        assert kept is None


def test_samplers_that_are_mixed_draw_by_random_numbers_of_their_own():
    known = KnownPositives(POSITIVES)
    first, second, alone = (
        made(UniformSampler, known, NUM_PASSAGES, settings={"per_query": 5}, seed=seed)
        for seed in ((3, 0), (3, 1), 3)
    )
    (batch,) = batches(1)
    rows = first.draw(batch)
    assert (rows != second.draw(batch)).any()
    assert (rows == alone.draw(batch)).all()
