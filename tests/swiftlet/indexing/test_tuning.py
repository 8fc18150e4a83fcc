from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swiftlet.indexing.tuning import (
    TARGET,
    TUNED_CANDIDATES,
    exact_rows,
    near_found,
    recall,
    tune,
)
from swiftlet.retrieval.engines.faiss_index import FaissIndex, FaissParameters
from swiftlet.retrieval.types import Embeddings

DIM = 32


def clustered(count: int, seed: int) -> Embeddings:
    centres = np.random.default_rng(0).normal(size=(50, DIM))
    random = np.random.default_rng(seed)
    points = centres[random.integers(50, size=count)] + 0.7 * random.normal(size=(count, DIM))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


EMBEDDINGS = clustered(8000, 1)
QUERIES = clustered(100, 2)
NEAREST = exact_rows(EMBEDDINGS, QUERIES, 10)


def built(factory: str) -> FaissIndex:
    index = FaissIndex.create(factory, DIM)
    index.train(EMBEDDINGS)
    index.add(EMBEDDINGS)
    return index


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 70), st.integers(0, 99))
def test_exact_rows_are_those_of_a_full_sort(size, num_queries, count, seed):
    random = np.random.default_rng(seed)
    embeddings = random.normal(size=(size, 4)).astype(np.float32)
    queries = random.normal(size=(num_queries, 4)).astype(np.float32)
    expected = np.argsort(-(queries @ embeddings.T), axis=1)[:, :count]
    assert exact_rows(embeddings, queries, count).tolist() == expected.tolist()


def test_exact_rows_are_found_across_blocks():
    random = np.random.default_rng(0)
    embeddings = random.normal(size=(150_000, 2)).astype(np.float32)
    queries = random.normal(size=(3, 2)).astype(np.float32)
    expected = np.argsort(-(queries @ embeddings.T), axis=1)[:, :20]
    products = queries @ embeddings.T
    found = exact_rows(embeddings, queries, 20)
    np.testing.assert_array_equal(
        np.take_along_axis(products, found, 1), np.take_along_axis(products, expected, 1)
    )


def test_recall_is_the_share_of_the_nearest_rows_found():
    index = built("Flat")
    assert recall(index, QUERIES, NEAREST, 10) == 1
    assert recall(index, QUERIES, NEAREST + 1, 10) < 0.1
    half = np.where(np.arange(10) < 5, NEAREST, -1)
    assert recall(index, QUERIES, half, 10) == 0.5


@pytest.mark.parametrize("best", [0.8, -0.8])
@pytest.mark.parametrize(("lower", "share"), [(0, 1.0), (0.009, 1.0), (0.011, 0.0)])
def test_a_row_counts_if_its_score_is_near_that_of_the_nearest(best, lower, share):
    scores = np.full(11, best - lower * abs(best), np.float32)
    index = FaissIndex.create("Flat", 1)
    index.add(scores[:10, np.newaxis])
    embeddings = np.append(scores[:10], np.float32(best))[:, np.newaxis]
    found = near_found(index, embeddings, np.ones((1, 1), np.float32), np.array([[10]]))
    assert found == share


def test_only_the_first_ten_rows_count():
    index, query = built("Flat"), QUERIES[:1]
    *_, tenth, eleventh = exact_rows(EMBEDDINGS, query, 11)[0]
    for row, share in ((tenth, 1), (eleventh, 0)):
        embeddings = np.zeros_like(EMBEDDINGS)
        embeddings[row] = EMBEDDINGS[row]
        assert near_found(index, embeddings, query, np.array([[row]])) == share


@pytest.mark.parametrize(
    "factory", ["IVF64,Flat", "IVF64,SQ8,Refine(Flat)", "IVF64,PQ8x4fs,Refine(Flat)", "HNSW16"]
)
def test_tuning_reaches_the_target_with_the_fastest_parameters(factory):
    index = built(factory)
    tuned = tune(index, EMBEDDINGS, QUERIES, NEAREST)
    assert index.parameters == tuned
    assert tuned.num_candidates == TUNED_CANDIDATES
    assert near_found(index, EMBEDDINGS, QUERIES, NEAREST) >= TARGET
    assert tuned.probes < index.most_probes
    # Half of any parameter misses the target.
    for name in ("probes", "refine_factor"):
        if getattr(tuned, name) > 1:
            index.parameters = replace(tuned, **{name: getattr(tuned, name) // 2})
            assert near_found(index, EMBEDDINGS, QUERIES, NEAREST) < TARGET


def test_an_exact_index_has_nothing_to_tune():
    tuned = tune(built("Flat"), EMBEDDINGS, QUERIES, NEAREST)
    assert tuned == FaissParameters(num_candidates=TUNED_CANDIDATES)


def test_where_the_target_is_out_of_reach_searches_are_as_good_as_the_most_thorough():
    index = built("IVF16,PQ4x4fs")
    tuned = found_with(index, tune(index, EMBEDDINGS, QUERIES, NEAREST))
    thorough = found_with(index, FaissParameters(num_candidates=TUNED_CANDIDATES, probes=16))
    assert thorough - 0.001 <= tuned < TARGET


def found_with(index: FaissIndex, parameters: FaissParameters) -> float:
    index.parameters = parameters
    return near_found(index, EMBEDDINGS, QUERIES, NEAREST)


def test_a_passage_with_the_same_text_is_as_near_as_the_nearest():
    copies = np.tile(EMBEDDINGS[:2000], (20, 1))
    index = FaissIndex.create("IVF64,Flat", DIM)
    index.train(copies)
    index.add(copies)
    nearest = exact_rows(copies, QUERIES, 10)
    assert tune(index, copies, QUERIES, nearest).probes < index.most_probes
    assert near_found(index, copies, QUERIES, nearest) >= TARGET
