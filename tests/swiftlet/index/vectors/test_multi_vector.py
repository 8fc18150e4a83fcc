"""Passages of several vectors: the score is that of the best, however the rows are searched."""

import numpy as np
import pytest

from swiftlet.index.vectors import index_details, of_vectors, open_index
from swiftlet.index.vectors.faiss_index import FaissIndex
from swiftlet.index.vectors.multi_vector import MultiVectorIndex, best_scores
from swiftlet.index.vectors.tuning import exact_rows, near_recall, tune
from swiftlet.manifest import Manifest, describe_files
from swiftlet.types import Embeddings

DIM, VECTORS, SIZE = 8, 3, 400


def units(*shape: int, seed: int) -> Embeddings:
    vectors = np.random.default_rng(seed).standard_normal((*shape, DIM), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


PASSAGES = units(SIZE, VECTORS, seed=1).reshape(SIZE, -1)
QUERIES = units(20, seed=2)
# By definition: the largest inner product of a query with the vectors of a passage.
SCORES = np.einsum("qd,pvd->qpv", QUERIES, PASSAGES.reshape(SIZE, VECTORS, DIM)).max(axis=2)


@pytest.fixture(params=["Flat", "IVF4,Flat", "SQfp16"])
def index(request) -> MultiVectorIndex:
    index = of_vectors(FaissIndex.create(request.param, DIM), VECTORS)
    assert isinstance(index, MultiVectorIndex)
    index.train(PASSAGES)
    index.reserve(SIZE)
    for part in np.array_split(PASSAGES, 3):
        index.add(part)
    tune(index, PASSAGES, QUERIES, exact_rows(PASSAGES, QUERIES, 10))
    return index


@pytest.mark.parametrize("num_candidates", [1, 7, SIZE, 10 * SIZE])
def test_a_search_gives_the_passages_with_the_best_vectors_once_each(index, num_candidates):
    assert (index.dim, index.size, index.vectors) == (DIM, SIZE, VECTORS)
    for query, expected in zip(QUERIES, SCORES, strict=True):
        scores, rows = index.search(query, num_candidates)
        best = np.sort(expected)[::-1][:num_candidates]
        assert len(set(rows.tolist())) == len(rows) == min(num_candidates, SIZE)
        np.testing.assert_allclose(scores, expected[rows], atol=2e-3)
        np.testing.assert_allclose(scores[0], best[0], atol=2e-3)
        if num_candidates >= SIZE:
            np.testing.assert_allclose(scores, best, atol=2e-3)


def test_passages_are_scored_and_given_back(index):
    rows = np.array([5, 0, SIZE - 1])
    np.testing.assert_allclose(index.embeddings(rows), PASSAGES[rows], atol=1e-3)
    np.testing.assert_allclose(index.scores(QUERIES[0], rows), SCORES[0, rows], atol=2e-3)
    np.testing.assert_allclose(best_scores(PASSAGES[rows], QUERIES[0]), SCORES[0, rows], rtol=1e-5)


def test_a_part_of_the_passages_is_searched_as_if_there_were_no_others(index):
    allowed = np.arange(SIZE) % 7 == 3
    part = index.restricted_to(allowed)
    assert part.size == allowed.sum()
    for query, expected in zip(QUERIES, SCORES, strict=True):
        scores, rows = part.search(query, 5)
        assert allowed[rows].all()
        np.testing.assert_allclose(scores, np.sort(expected[allowed])[::-1][:5], atol=2e-3)


def test_an_empty_index_of_the_same_kind_takes_the_changes(index):
    empty = index.empty_exact()
    assert (empty.size, empty.dim, empty.vectors) == (0, DIM, VECTORS)
    empty.add(PASSAGES[:2])
    np.testing.assert_allclose(empty.embeddings(np.array([1])), PASSAGES[[1]], atol=1e-3)


def test_it_finds_the_same_after_saving_and_opening(index, tmp_path):
    index.save(tmp_path / index.file_name)
    counts = {"vectors": VECTORS, "num_passages": SIZE}
    details = {**index_details(FaissIndex, "a type", index), **counts}
    files = describe_files(tmp_path, [index.file_name])
    opened = open_index(tmp_path, Manifest("index", DIM, "", files, "", details=details))
    assert (type(opened), opened.parameters) == (type(index), index.parameters)
    np.testing.assert_array_equal(opened.search(QUERIES[0], 9)[1], index.search(QUERIES[0], 9)[1])


def test_exact_rows_and_their_recall_count_passages(index):
    nearest = exact_rows(PASSAGES, QUERIES, 10)
    assert nearest.tolist() == np.argsort(-SCORES, axis=1)[:, :10].tolist()
    assert near_recall(index, PASSAGES, QUERIES, nearest) >= 0.99


def test_a_large_index_is_trained_on_no_more_vectors_than_of_single_ones():
    factory = "IVF64,SQ8"
    single, several = FaissIndex.create(factory, DIM), FaissIndex.create(factory, DIM)
    size = of_vectors(several, VECTORS).training_size(1_000_000)
    assert size * VECTORS == pytest.approx(single.training_size(3_000_000), rel=1e-4)
