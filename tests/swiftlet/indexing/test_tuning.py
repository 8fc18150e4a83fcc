from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swiftlet.indexing.tuning import (
    TARGET,
    TUNED_CANDIDATES,
    exact_rows,
    nearest_found,
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


def test_the_nearest_row_counts_if_it_is_among_the_first_ten():
    index = built("Flat")
    tenth, eleventh = (exact_rows(EMBEDDINGS, QUERIES, 11)[:, [place]] for place in (9, 10))
    assert nearest_found(index, QUERIES, NEAREST) == nearest_found(index, QUERIES, tenth) == 1
    assert nearest_found(index, QUERIES, eleventh) == 0
    half = np.where(np.arange(100)[:, np.newaxis] < 50, NEAREST, -1)
    assert nearest_found(index, QUERIES, half) == 0.5


@pytest.mark.parametrize(
    "factory", ["IVF64,Flat", "IVF64,SQ8,Refine(Flat)", "IVF64,PQ8x4fs,Refine(Flat)", "HNSW16"]
)
def test_tuning_reaches_the_target_with_the_fastest_parameters(factory):
    index = built(factory)
    tuned = tune(index, QUERIES, NEAREST)
    assert index.parameters == tuned
    assert tuned.num_candidates == TUNED_CANDIDATES
    assert nearest_found(index, QUERIES, NEAREST) >= TARGET
    assert tuned.probes < index.most_probes
    # Half of any parameter misses the target.
    for name in ("probes", "refine_factor"):
        if getattr(tuned, name) > 1:
            index.parameters = replace(tuned, **{name: getattr(tuned, name) // 2})
            assert nearest_found(index, QUERIES, NEAREST) < TARGET


def test_an_exact_index_has_nothing_to_tune():
    assert tune(built("Flat"), QUERIES, NEAREST) == FaissParameters(num_candidates=TUNED_CANDIDATES)


def test_where_the_target_is_out_of_reach_searches_are_as_good_as_the_most_thorough():
    index = built("IVF16,PQ4x4fs")
    tuned = found_with(index, tune(index, QUERIES, NEAREST))
    thorough = found_with(index, FaissParameters(num_candidates=TUNED_CANDIDATES, probes=16))
    assert thorough - 0.001 <= tuned < TARGET


def found_with(index: FaissIndex, parameters: FaissParameters) -> float:
    index.parameters = parameters
    return nearest_found(index, QUERIES, NEAREST)


def test_a_target_out_of_reach_does_not_make_searches_slow():
    index = built("IVF1,PQ8x4fs,Refine(Flat)")
    usual = tune(index, QUERIES, NEAREST)
    # As with passages of the same text, of which exact search finds another one.
    missing = np.where(np.arange(100)[:, np.newaxis] < 90, NEAREST, -1)
    assert tune(index, QUERIES, missing).refine_factor <= usual.refine_factor
