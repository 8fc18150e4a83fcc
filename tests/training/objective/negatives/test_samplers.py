"""Tests for all samplers."""

from collections.abc import Callable

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


def in_batch(known: KnownPositives, seed: int, per_query: int = PER_QUERY) -> NegativeSampler:
    return made(InBatchSampler, known)


def uniform(known: KnownPositives, seed: int, per_query: int = PER_QUERY) -> NegativeSampler:
    settings = {"per_query": per_query}
    return made(UniformSampler, known, NUM_PASSAGES, settings=settings, seed=seed)


def bm25(known: KnownPositives, seed: int, per_query: int = PER_QUERY) -> NegativeSampler:
    settings = {"per_query": per_query, "depth": 70}
    inputs = {"queries": QUERY_TEXTS, "passages": PASSAGES}
    return made(Bm25Sampler, known, settings=settings, seed=seed, **inputs)


def mined(known: KnownPositives, seed: int, per_query: int = PER_QUERY) -> NegativeSampler:
    settings = {"per_query": per_query, "depth": max(20, per_query), "refresh_every": 2}
    queries = {"encode_queries": lambda queries: QUERIES[queries]}
    return made(MinedSampler, known, NUM_PASSAGES, settings=settings, seed=seed, **queries)


def dynamic(known: KnownPositives, seed: int, per_query: int = PER_QUERY) -> NegativeSampler:
    settings = {"per_query": per_query}
    return made(
        DynamicSampler, known, NUM_PASSAGES, settings=settings, seed=seed, encode_passages=encode
    )


def cache(
    known: KnownPositives, seed: int, per_query: int = PER_QUERY, fraction: float = 0.5
) -> NegativeSampler:
    settings = {
        "per_query": per_query, "cache_fraction": fraction, "refresh_fraction": 0.2,
        "gradient": "cached",
    }  # fmt: skip
    inputs = {"width": DIM, "scale": 5.0}
    return made(NegativeCache, known, NUM_PASSAGES, settings=settings, seed=seed, **inputs)


def full_cache(known: KnownPositives, seed: int, per_query: int = PER_QUERY) -> NegativeSampler:
    return cache(known, seed, per_query, fraction=1.0)


def given(known: KnownPositives, seed: int, per_query: int = PER_QUERY) -> NegativeSampler:
    pairs = [(query, row) for query in range(len(known)) for row in range(-1, NUM_PASSAGES, 2)]
    rows = np.array([row for _, row in pairs])
    inputs = {"pairs": np.array(pairs), "given_negatives": rows}
    return made(GivenSampler, known, settings={"per_query": per_query}, seed=seed, **inputs)


def mixed(known: KnownPositives, seed: int, per_query: int = PER_QUERY) -> NegativeSampler:
    return MixedSampler([make(known, seed, per_query) for make in (cache, in_batch, uniform)])


ALL = [in_batch, dynamic, uniform, bm25, mined, cache, full_cache, given, mixed]
RANDOM = ALL[2:]


@pytest.fixture(params=ALL, ids=lambda make: make.__name__)
def make(request: pytest.FixtureRequest) -> Make:
    return request.param


@pytest.fixture(params=RANDOM, ids=lambda make: make.__name__)
def make_random(request: pytest.FixtureRequest) -> Make:
    return request.param


def encode(rows: Rows) -> torch.Tensor:
    return DOCUMENTS[rows]


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


def test_every_sampler_draws_equally_many_for_each_query(make):
    sampler = make(KnownPositives(POSITIVES), 0)
    sampler.prepare(encode)
    width = {in_batch: 8, mixed: 2 * PER_QUERY + 8}.get(make, PER_QUERY)
    assert {rows.shape for rows in steps(sampler, batches(3))} == {(8, width)}


def test_every_sampler_draws_the_same_for_the_same_seed(make):
    samplers = [make(KnownPositives(POSITIVES), 5) for _ in range(2)]
    for sampler in samplers:
        sampler.prepare(encode)
    once, again = (np.array(steps(sampler, batches(6))) for sampler in samplers)
    assert (once == again).all()


def test_every_random_sampler_draws_other_rows_for_another_seed_and_in_the_next_step(make_random):
    samplers = [make_random(KnownPositives(POSITIVES), seed) for seed in (5, 6)]
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


def test_every_sampler_marks_missing_rows(make):
    # Nothing but row 3 is left for query 0; query 1 has all.
    known = KnownPositives([[row for row in range(NUM_PASSAGES) if row != 3], []])
    sampler = make(known, 0, per_query=NUM_PASSAGES + 5)
    sampler.prepare(encode)
    batch = QueryBatch(np.array([0, 1]), np.array([1, 2]), QUERIES[:2])
    rows = sampler.draw(batch)
    assert set(rows[0].tolist()) <= {3, NO_ROW}
    found = rows[1][rows[1] != NO_ROW]
    assert len(set(found.tolist())) == len(found)
    most = {in_batch: 1, bm25: 59, cache: 30, given: 30}.get(make, NUM_PASSAGES)
    assert 0 < len(found) <= most
    assert (rows[1] == NO_ROW).any()


def test_every_sampler_draws_nothing_for_an_empty_batch(make):
    sampler = make(KnownPositives(POSITIVES), 0)
    sampler.prepare(encode)
    nothing = np.empty(0, dtype=np.int64)
    assert len(sampler.draw(QueryBatch(nothing, nothing, QUERIES[:0]))) == 0


def test_every_sampler_returns_the_kept_embeddings_of_drawn_rows(make):
    sampler = make(KnownPositives(POSITIVES), 0)
    sampler.prepare(encode)
    rows = sampler.draw(batches(1)[0])
    drawn = rows[rows != NO_ROW]
    kept = sampler.cached(drawn)
    if make in {cache, full_cache}:
        assert (kept == DOCUMENTS[drawn]).all()
    elif make is mixed:
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
