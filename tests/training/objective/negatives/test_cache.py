import tracemalloc
from itertools import permutations

import numpy as np
import pytest
import torch
from scipy import stats

from tests.samplers import made as sampler_of
from tests.samplers import normalised
from training.data.positives import KnownPositives
from training.objective.negatives import cache
from training.objective.negatives.cache import NegativeCache
from training.objective.negatives.sampler import NO_ROW, QueryBatch, Rows

DIM = 8


DOCUMENTS = normalised(40, 1)
QUERY = normalised(1, 2)


def encode(rows: Rows) -> torch.Tensor:
    return DOCUMENTS[rows]


def stamped(time: int):
    """Embeddings that contain a row and the time of its encoding."""

    def encode_now(rows: Rows) -> torch.Tensor:
        embeddings = torch.zeros(len(rows), DIM)
        embeddings[:, 0], embeddings[:, 1] = torch.from_numpy(rows), time
        return embeddings

    return encode_now


def made(num_passages: int = 40, positives: list[int] | None = None, **settings) -> NegativeCache:
    seed, scale = settings.pop("seed", 0), settings.pop("scale", 20.0)
    chosen = {"per_query": 4, "refresh_fraction": 0.1, "gradient": "cached", **settings}
    known = KnownPositives([positives or []])
    return sampler_of(
        NegativeCache, known, num_passages, settings=chosen, seed=seed, scale=scale, width=DIM
    )


def batch(lines: int, query: torch.Tensor = QUERY) -> QueryBatch:
    zeros = np.zeros(lines, dtype=np.int64)
    return QueryBatch(zeros, zeros, query.expand(lines, -1))


def contents(sampler: NegativeCache, num_passages: int = 40) -> dict[int, int]:
    """When each cached row was encoded."""
    kept = sampler.cached(np.arange(num_passages))
    present = ~kept.isnan().any(dim=1)
    assert (kept[present, 0] == torch.arange(num_passages)[present]).all()
    return {row: int(kept[row, 1]) for row in np.flatnonzero(present.numpy()).tolist()}


# Draws.


@pytest.mark.parametrize(
    ("settings", "scale"),
    [
        ({"scale": 3.0}, 3.0),
        ({"scale": 0.0}, 0.0),
        ({"scale": 3.0, "cache_fraction": 0.5}, 3.0),
        ({"scale": 3.0, "cache_precision": "float16"}, 3.0),
    ],
)
def test_single_negatives_follow_the_softmax_of_the_cached_scores(settings, scale):
    positives = [3, 17, 30]
    sampler = made(positives=positives, per_query=1, **settings)
    sampler.prepare(encode)
    drawn = sampler.draw(batch(20_000))[:, 0]
    kept = sampler.cached(np.arange(40))
    cached = (~kept.isnan().any(dim=1)).numpy()
    weights = torch.exp(scale * (kept @ QUERY[0])).double().numpy()
    weights[positives] = 0
    weights[~cached] = 0
    possible = weights > 0
    counts = np.bincount(drawn, minlength=40)
    assert (counts[~possible] == 0).all()
    expected = 20_000 * weights[possible] / weights.sum()
    assert stats.chisquare(counts[possible], expected).pvalue > 0.01


def test_several_negatives_are_included_as_in_the_plackett_luce_model():
    sampler = made(num_passages=6, per_query=3, scale=4.0)
    sampler.prepare(encode)
    drawn = sampler.draw(batch(20_000))
    weights = torch.exp(4.0 * DOCUMENTS[:6] @ QUERY[0]).double().numpy()
    expected = np.zeros(6)
    for sequence in permutations(range(6), 3):
        left, probability = weights.sum(), 1.0
        for row in sequence:
            probability *= weights[row] / left
            left -= weights[row]
        expected[list(sequence)] += probability
    observed = np.bincount(drawn.ravel(), minlength=6) / len(drawn)
    deviations = np.sqrt(expected * (1 - expected) / len(drawn))
    assert (abs(observed - expected) < 4 * deviations).all()
    # Far from what drawing with replacement would give.
    assert (abs(observed - 3 * weights / weights.sum()) > 20 * deviations).any()


@pytest.mark.parametrize("gradient", ["re-encoded", "cached"])
def test_the_best_or_a_sample_can_be_chosen_with_any_gradient(gradient):
    best, sample = (
        made(gradient=gradient, choice=choice, scale=1.0) for choice in ("best", "sample")
    )
    for each in (best, sample):
        each.prepare(encode)
    nearest = (DOCUMENTS @ QUERY[0]).argsort(descending=True)[:4].tolist()
    assert best.draw(batch(50)).tolist() == 50 * [nearest]
    assert len({*sample.draw(batch(50)).ravel().tolist()}) > 10


def test_large_batches_are_scored_in_parts_and_masked_each_by_its_own_positives(monkeypatch):
    monkeypatch.setattr(cache, "_SCORES_AT_ONCE", 100)
    known = KnownPositives(
        [[row for row in range(40) if row not in {query, 39}] for query in range(9)]
    )
    settings = {"per_query": 4, "refresh_fraction": 0.0, "gradient": "cached"}
    sampler = sampler_of(NegativeCache, known, 40, settings=settings, width=DIM)
    sampler.prepare(encode)
    queries = np.arange(9)
    drawn = sampler.draw(QueryBatch(queries, queries, normalised(9, 3)))
    assert [set(line.tolist()) for line in drawn] == [{query, 39, NO_ROW} for query in range(9)]


def test_an_empty_cache_gives_nothing():
    assert (made().draw(batch(2)) == NO_ROW).all()


def test_gradients_are_not_kept():
    sampler = made()
    weight = torch.ones((), requires_grad=True)
    sampler.prepare(lambda rows: weight * DOCUMENTS[rows])
    sampler.update(np.array([1]), weight * QUERY)
    sampler.draw(batch(2, weight * QUERY))
    assert not sampler.cached(np.arange(40)).requires_grad


# Content.


@pytest.mark.parametrize(
    ("num_passages", "fraction", "refresh_fraction", "size", "num_refreshed"),
    [
        (40, 1.0, 0.0, 40, 0),
        (40, 1, 1, 40, 40),
        (40, 0.26, 0.1, 11, 2),
        # 0.07 · 100 is more than 7 in binary floating point.
        (100, 0.07, 1.0, 7, 7),
        (3, 1e-9, 1e-9, 1, 1),
    ],
)
def test_shares_are_rounded_up(num_passages, fraction, refresh_fraction, size, num_refreshed):
    sampler = made(num_passages, cache_fraction=fraction, refresh_fraction=refresh_fraction)
    asked: list[int] = []

    def counting(rows: Rows) -> torch.Tensor:
        asked.extend(rows.tolist())
        return torch.zeros(len(rows), DIM)

    sampler.prepare(counting)
    assert len(set(asked)) == len(asked) == size
    sampler.refresh(counting)
    assert len(asked) == size + num_refreshed


@pytest.mark.parametrize(
    ("fraction", "size", "moved"), [(0.5, 20, 2), (0.3, 12, 2), (0.975, 39, 4)]
)
def test_the_oldest_passages_make_room_for_the_next_until_all_have_come_by(fraction, size, moved):
    sampler = made(cache_fraction=fraction, refresh_fraction=0.1)
    sampler.prepare(stamped(0))
    entered: list[int] = []
    ages = contents(sampler)
    seen = set(ages)
    for time in range(1, 60):
        sampler.refresh(stamped(time))
        now = contents(sampler)
        assert len(now) == size
        new = [row for row, stamp in now.items() if stamp == time]
        assert len(new) == moved
        left = [stamp for row, stamp in ages.items() if now.get(row) != stamp]
        stayed = [stamp for row, stamp in ages.items() if now.get(row) == stamp]
        assert max(left) <= min(stayed)
        entered.extend(new)
        seen |= set(new)
        if size + moved * time >= 40:
            assert seen == set(range(40))
        ages = now
    # Again and again, each as often as any other.
    counts = np.bincount(entered, minlength=40)
    assert counts.max() - counts.min() <= 1
    assert counts.min() >= 2


def test_where_all_passages_fit_the_oldest_are_encoded_afresh():
    sampler = made(cache_fraction=1.0, refresh_fraction=0.25)
    sampler.prepare(stamped(0))
    for time in range(1, 9):
        sampler.refresh(stamped(time))
        stamps = sorted(contents(sampler).values())
        assert stamps == sorted([max(0, time - back) for back in range(4) for _ in range(10)])


def test_passages_enter_in_an_order_that_the_seed_decides():
    def first(seed: int) -> list[int]:
        sampler = made(cache_fraction=0.5, seed=seed)
        sampler.prepare(stamped(0))
        return list(contents(sampler))

    assert first(1) == first(1) != first(2)
    assert first(1) != list(range(20))


def test_large_caches_are_filled_in_blocks(monkeypatch):
    monkeypatch.setattr(cache, "_ENCODED_ROWS", 7)
    sampler = made(cache_fraction=0.5, refresh_fraction=0.8)
    lengths = []

    def counting(rows: Rows) -> torch.Tensor:
        lengths.append(len(rows))
        return stamped(len(lengths))(rows)

    sampler.prepare(counting)
    assert lengths == [7, 7, 6]
    sampler.refresh(counting)
    assert lengths[3:] == [7, 7, 2]
    assert sorted(contents(sampler).values()) == [3] * 4 + [4] * 7 + [5] * 7 + [6] * 2


def test_embeddings_of_a_step_replace_cached_ones():
    sampler = made(cache_fraction=0.5, refresh_fraction=0.1)
    sampler.prepare(stamped(0))
    before = contents(sampler)
    inside, outside = list(before)[3], next(row for row in range(40) if row not in before)
    rows = np.array([outside, inside, NO_ROW, inside])
    new = torch.full((4, DIM), 9.0)
    new[1:, 0] = inside
    new[3, 1] = 5.0
    sampler.update(rows, new)
    assert contents(sampler) == {**before, inside: 9}


def test_no_row_is_never_cached_nor_updated():
    sampler = made()
    sampler.prepare(stamped(0))
    sampler.update(np.array([NO_ROW]), torch.full((1, DIM), 9.0))
    assert set(contents(sampler).values()) == {0}
    assert sampler.cached(np.array([NO_ROW, 3])).isnan().any(dim=1).tolist() == [True, False]


def test_a_passage_that_is_encoded_anyway_stays_no_longer():
    runs = [made(cache_fraction=0.5, refresh_fraction=0.1) for _ in range(2)]
    for sampler in runs:
        sampler.prepare(stamped(0))
    for time in range(1, 12):
        kept = np.array(list(contents(runs[0])))
        runs[0].update(kept, stamped(99)(kept))
        for sampler in runs:
            sampler.refresh(stamped(time))
        assert set(contents(runs[0])) == set(contents(runs[1]))


def test_a_half_precision_cache_takes_half_the_memory():
    sizes = []
    for precision in ("float32", "float16"):
        sampler = made(cache_precision=precision)
        sampler.prepare(encode)
        assert sampler.cached(np.arange(40)).dtype == torch.float32
        torch.testing.assert_close(sampler.cached(np.arange(40)), DOCUMENTS, atol=1e-3, rtol=0)
        sizes.append(sampler.state()["embeddings"].nbytes)
    assert sizes[0] == 2 * sizes[1]


# Cost.


def test_beyond_the_score_product_a_step_costs_the_same_for_any_cache():
    def peak_bytes(size: int) -> int:
        """Most memory of NumPy's arrays in a step; torch's, the scores, are not counted."""
        documents = normalised(size, 4)
        sampler = made(size, positives=[1, 2, 3], scale=100.0, refresh_fraction=100 / size)
        sampler.prepare(lambda rows: documents[rows])
        tracemalloc.start()
        rows = sampler.draw(batch(16))
        sampler.cached(rows.ravel())
        sampler.update(rows.ravel(), documents[rows.ravel()])
        sampler.refresh(lambda rows: documents[rows])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak_bytes(50_000)  # what is imported on first use counts only once
    assert peak_bytes(400_000) < 1.2 * peak_bytes(50_000)
