from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swiftlet.index.vectors.faiss_index import FaissIndex
from swiftlet.index.vectors.faiss_search import FaissParameters
from swiftlet.index.vectors.tuning import (
    TARGET,
    TUNED_CANDIDATES,
    exact_rows,
    found_rows,
    near_recall,
    recall,
    tune,
)
from tests.swiftlet.index.vectors.points import DIM, clustered

EMBEDDINGS = clustered(8000, 1, 50, 0.7)
QUERIES = clustered(100, 2, 50, 0.7)
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
    assert recall(found_rows(index, QUERIES, 10), NEAREST) == 1
    assert recall(found_rows(index, QUERIES, 10), NEAREST + 1) < 0.1
    half = np.where(np.arange(10) < 5, NEAREST, -1)
    assert recall(found_rows(index, QUERIES, 10), half) == 0.5


@pytest.mark.parametrize("tenth", [0.8, -0.8])
@pytest.mark.parametrize(("lower", "share"), [(0, 1.0), (0.009, 1.0), (0.011, 0.0)])
def test_a_row_counts_if_its_score_is_near_that_of_the_tenth_nearest(tenth, lower, share):
    found = np.full((10, 1), tenth - lower * abs(tenth), np.float32)
    index = FaissIndex.create("Flat", 1)
    index.add(found)
    embeddings = np.append(found, [[np.float32(tenth)]], axis=0)
    nearest, query = np.full((1, 10), 10), np.ones((1, 1), np.float32)
    assert near_recall(index, embeddings, query, nearest) == share


def test_the_first_ten_rows_count():
    index, embeddings = built("Flat"), EMBEDDINGS.copy()
    assert near_recall(index, EMBEDDINGS, QUERIES, NEAREST) == 1
    embeddings[NEAREST[0, :3]] *= -1
    assert near_recall(index, embeddings, QUERIES[:1], NEAREST[:1]) == 0.7
    eleventh = exact_rows(EMBEDDINGS, QUERIES[:1], 11)[0, 10]
    embeddings[eleventh] *= -1
    assert near_recall(index, embeddings, QUERIES[:1], NEAREST[:1]) == 0.7


def test_of_fewer_than_ten_rows_all_count():
    index = FaissIndex.create("Flat", DIM)
    index.add(EMBEDDINGS[:3])
    nearest = exact_rows(EMBEDDINGS[:3], QUERIES, 10)
    assert near_recall(index, EMBEDDINGS[:3], QUERIES, nearest) == 1


@pytest.mark.parametrize(
    "factory", ["IVF64,Flat", "IVF64,SQ8,Refine(Flat)", "IVF64,PQ8x4fs,Refine(Flat)", "HNSW16"]
)
def test_tuning_reaches_the_target_with_the_fastest_parameters(factory):
    index = built(factory)
    tuned = tune(index, EMBEDDINGS, QUERIES, NEAREST)
    assert index.parameters == tuned
    assert tuned.num_candidates == TUNED_CANDIDATES
    assert near_recall(index, EMBEDDINGS, QUERIES, NEAREST) >= TARGET
    assert tuned.probes < index.most_probes
    # Half of any parameter misses the target.
    for name in ("probes", "refine_factor"):
        if getattr(tuned, name) > 1:
            index.parameters = replace(tuned, **{name: getattr(tuned, name) // 2})
            assert near_recall(index, EMBEDDINGS, QUERIES, NEAREST) < TARGET


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
    return near_recall(index, EMBEDDINGS, QUERIES, NEAREST)


def test_passages_with_the_text_of_the_nearest_count():
    copies = np.tile(EMBEDDINGS[:2000], (20, 1))
    index = FaissIndex.create("IVF64,Flat", DIM)
    index.train(copies)
    index.add(copies)
    nearest = exact_rows(copies, QUERIES, 10)
    assert tune(index, copies, QUERIES, nearest).probes < index.most_probes
    assert near_recall(index, copies, QUERIES, nearest) >= TARGET
