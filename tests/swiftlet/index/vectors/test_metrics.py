"""Inner products of vectors of any length, and squared distances, in every type of FAISS index."""

import numpy as np
import pytest

from swiftlet.index.vectors import faiss_index
from swiftlet.index.vectors.dense_scale import DenseScale, measured_scale
from swiftlet.index.vectors.faiss_index import FaissIndex, FaissParameters
from swiftlet.index.vectors.multi_vector import MultiVectorIndex
from swiftlet.index.vectors.tuning import exact_rows, near_recall, tune
from swiftlet.index.vectors.vector_index import scores_by
from swiftlet.types import Embeddings
from tests.swiftlet.index.vectors.points import DIM, clustered

SIZE = 3000
LENGTHS = np.exp(np.random.default_rng(0).normal(size=(SIZE, 1))).astype(np.float32)
EMBEDDINGS = clustered(SIZE, 1) * LENGTHS
QUERIES = clustered(20, 2) * 3
EXACT = ["Flat", "IVF8,Flat"]
CODES = ["SQ8", "SQfp16", "IVF8,SQ8", "HNSW16", "PCAR32,IVF1,PQ16x4fs,Refine(SQ8)"]


def brute_force(metric: str, query: Embeddings) -> Embeddings:
    if metric == "l2":
        return -((EMBEDDINGS.astype(np.float64) - query) ** 2).sum(axis=1)
    return EMBEDDINGS.astype(np.float64) @ query


@pytest.fixture(scope="module", params=["inner_product", "l2"])
def metric(request) -> str:
    return request.param


@pytest.fixture(scope="module", params=[*EXACT, *CODES])
def factory(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def index(factory, metric, tmp_path_factory) -> FaissIndex:
    made = FaissIndex.create(factory, DIM, metric)
    made.train(EMBEDDINGS)
    made.add(EMBEDDINGS)
    path = tmp_path_factory.mktemp("index") / "index.faiss"
    made.save(path)
    index = FaissIndex.load(path)
    probes = index.most_probes if "HNSW" not in factory else 256
    index.parameters = FaissParameters(probes=probes, refine_factor=8, num_candidates=100)
    return index


def test_the_best_rows_are_those_of_brute_force(index, factory, metric):
    shares = []
    for query in QUERIES:
        expected = brute_force(metric, query)
        nearest = np.argsort(-expected, kind="stable")[:10]
        scores, rows = index.search(query, 10)
        assert (np.diff(scores) <= 0).all()
        tolerance = 1e-3 if factory in EXACT else 0.05 * np.abs(expected).max()
        np.testing.assert_allclose(scores, expected[rows], atol=tolerance, rtol=1e-5)
        np.testing.assert_allclose(
            index.scores(query, np.sort(rows)), expected[np.sort(rows)], atol=tolerance, rtol=1e-5
        )
        shares.append(np.isin(rows, nearest).mean())
    assert np.mean(shares) > (0.999 if factory in EXACT else 0.85)


@pytest.mark.parametrize("few", [0, 100])
@pytest.mark.parametrize("count", [0, 1, 90, 300, 2000])
def test_the_best_of_some_rows_are_those_of_brute_force(
    index, factory, metric, few, count,
    monkeypatch
):  # fmt: skip
    monkeypatch.setattr(faiss_index, "FEW_ROWS", few)  # copied, selected or compared one by one
    monkeypatch.setattr(faiss_index, "_COPIED_SHARE", 0.2)
    allowed = np.random.default_rng(3).permutation(SIZE) < count
    some = index.restricted_to(allowed)
    for query in QUERIES[:5]:
        expected = np.where(allowed, brute_force(metric, query), -np.inf)
        scores, rows = some.search(query, 10)
        assert len(rows) == min(10, count)
        assert allowed[rows].all()
        assert (np.diff(scores) <= 0).all()
        if factory in EXACT and count:
            best = np.sort(expected)[::-1][: len(rows)]
            np.testing.assert_allclose(
                scores, best, rtol=1e-3, atol=1e-3
            )  # copied in half precision


def test_tuning_measures_by_the_metric(metric):
    nearest = exact_rows(EMBEDDINGS, QUERIES, 10, metric)
    expected = [np.argsort(-brute_force(metric, query), kind="stable")[:10] for query in QUERIES]
    assert [set(row) for row in nearest.tolist()] == [set(row.tolist()) for row in expected]
    index = FaissIndex.create("IVF64,Flat", DIM, metric)
    index.train(EMBEDDINGS)
    index.add(EMBEDDINGS)
    tune(index, EMBEDDINGS, QUERIES, nearest)
    assert near_recall(index, EMBEDDINGS, QUERIES, nearest) >= 0.99
    assert 1 < index.parameters.probes < 64


def test_the_vectors_of_a_passage_are_compared_by_the_metric(metric):
    index = MultiVectorIndex(FaissIndex.create("Flat", DIM, metric), 2)
    index.add(EMBEDDINGS.reshape(-1, 2 * DIM))
    best = brute_force(metric, QUERIES[0]).reshape(-1, 2).max(axis=1)
    scores, rows = index.search(QUERIES[0], 10)
    assert rows.tolist() == np.argsort(-best, kind="stable")[:10].tolist()
    np.testing.assert_allclose(scores, best[rows], rtol=1e-4, atol=1e-4)


def test_large_numbers_are_not_halved():
    index = FaissIndex.create("SQ8", 2, "l2")
    embeddings = np.array([(0, 1e5), (1e5, 0), (3, 3)], np.float32)
    index.train(embeddings)
    index.add(embeddings)
    exact = index.empty_exact()
    exact.add(embeddings)
    scores, rows = exact.search(embeddings[0], 1)
    assert (scores.tolist(), rows.tolist()) == ([0.0], [0])


@pytest.mark.parametrize("length", [0.5, 1.0, 7.0])
def test_the_scale_makes_scores_of_equal_lengths_cosines(metric, length):
    passages = clustered(50, 5) * np.float32(length)
    scale = DenseScale(metric, *measured_scale(passages))
    for query in QUERIES:
        cosines = passages @ query / (length * np.linalg.norm(query))
        found = scale.of(scores_by(metric, passages, query), query)
        np.testing.assert_allclose(found, cosines, atol=1e-4)
        assert found.dtype == np.float32
