import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.index_type import (
    EXACT_UP_TO,
    SCANNED_UP_TO,
    TARGET_RECALL,
    TUNED_CANDIDATES,
    default_factory,
    exact_rows,
    recall,
    training_size,
    tune,
)
from retrieval.index import FaissIndex, SearchEffort
from retrieval.types import Embeddings

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


@pytest.mark.parametrize(
    ("num_passages", "factory"),
    [
        (1, "Flat"),
        (EXACT_UP_TO, "Flat"),
        (EXACT_UP_TO + 1, "PQ192x4fs,Refine(SQfp16)"),
        (SCANNED_UP_TO, "PQ192x4fs,Refine(SQfp16)"),
        (SCANNED_UP_TO + 1, "IVF2000,PQ192x4fs,Refine(SQfp16)"),
        (1_000_000, "IVF4000,PQ192x4fs,Refine(SQfp16)"),
        (10**9, "IVF65536,PQ192x4fs,Refine(SQfp16)"),
    ],
)
def test_the_type_follows_the_size(num_passages, factory):
    assert default_factory(num_passages, 384) == factory


@given(st.integers(1, 10**9), st.integers(2, 1100))
def test_every_size_and_width_has_an_index_that_can_be_trained(num_passages, dim):
    factory = default_factory(num_passages, dim)
    if found := re.search(r"PQ(\d+)x4fs", factory):
        assert dim % int(found[1]) == 0
    if found := re.search(r"IVF(\d+),", factory):
        assert 39 * int(found[1]) <= training_size(num_passages) <= num_passages


@pytest.mark.parametrize("dim", [32, 48, 100, 384])
@pytest.mark.parametrize("num_passages", [EXACT_UP_TO + 1, SCANNED_UP_TO + 1])
def test_faiss_builds_the_type_for_any_width(dim, num_passages):
    embeddings = np.random.default_rng(0).normal(size=(1000, dim)).astype(np.float32)
    factory = default_factory(num_passages, dim).replace("IVF2000", "IVF4")
    index = FaissIndex.create(factory, dim)
    index.train(embeddings)
    index.add(embeddings)
    assert len(index.search(embeddings[0], 1000)[1]) == 1000


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


@pytest.mark.parametrize(
    "factory", ["IVF64,Flat", "IVF64,SQ8,Refine(Flat)", "IVF64,PQ8x4fs,Refine(Flat)", "HNSW16"]
)
def test_tuning_reaches_the_target_with_less_than_all_effort(factory):
    index = built(factory)
    effort = tune(index, QUERIES, NEAREST)
    assert index.effort == effort
    assert effort.num_candidates == TUNED_CANDIDATES
    assert recall(index, QUERIES, NEAREST, TUNED_CANDIDATES) >= TARGET_RECALL
    assert effort.probes < index.most_probes
    # The effort found is the least: the next smaller one misses the target.
    if effort.probes > 1:
        index.effort = SearchEffort(effort.probes // 2, effort.refine_factor, TUNED_CANDIDATES)
        assert recall(index, QUERIES, NEAREST, TUNED_CANDIDATES) < TARGET_RECALL
    if effort.refine_factor > 1:
        index.effort = SearchEffort(effort.probes, effort.refine_factor // 2, TUNED_CANDIDATES)
        assert recall(index, QUERIES, NEAREST, TUNED_CANDIDATES) < TARGET_RECALL


def test_an_exact_index_needs_no_effort():
    assert tune(built("Flat"), QUERIES, NEAREST) == SearchEffort(1, 1, TUNED_CANDIDATES)


def test_where_the_target_is_out_of_reach_an_index_makes_all_the_effort_it_can():
    index = built("IVF16,PQ4x4fs")
    assert tune(index, QUERIES, NEAREST).probes == 16
    assert recall(index, QUERIES, NEAREST, TUNED_CANDIDATES) < TARGET_RECALL
