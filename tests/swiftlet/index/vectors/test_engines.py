"""The battery for every index engine, and every type of FAISS index."""

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.errors import (
    ArtefactError,
    CorruptIndexError,
    InvalidArgumentError,
    ManifestError,
    StorageError,
)
from swiftlet.index.vectors import faiss_index, index_details, open_index
from swiftlet.index.vectors.faiss_index import FaissIndex, FaissParameters
from swiftlet.index.vectors.vector_index import Engine
from swiftlet.manifest import Manifest, describe_files, read_manifest, write_manifest
from swiftlet.search.searcher import Searcher
from tests.swiftlet.index.vectors.exact_index import ExactIndex
from tests.swiftlet.index.vectors.points import DIM, clustered

POINTS = np.array([(1, 0), (0, 1), (0.6, 0.8), (-1, 0)], np.float32)
SIZE = 3000
EMBEDDINGS = clustered(SIZE, 1)
QUERIES = clustered(20, 2)
EXACT = ["array", "Flat", "IVF8,Flat"]
APPROXIMATE = [
    "SQ8",
    "PQ16x4fs,Refine(Flat)",
    "IVF8,PQ16x4fs,Refine(SQ8)",
    "OPQ4_32,IVF8,PQ16np",
    "IVF64,PQ16np",
    "PCA28,IVF8,SQ8",
    "HNSW16",
]


@pytest.fixture(scope="module", params=[*EXACT, *APPROXIMATE])
def factory(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def index(factory) -> Engine:
    if factory == "array":
        index: Engine = ExactIndex.create(factory, DIM)
    else:
        index = FaissIndex.create(factory, DIM)
    index.train(EMBEDDINGS[:600])
    index.add(EMBEDDINGS[:1000], threads=2)
    index.add(EMBEDDINGS[1000:], threads=2)
    if isinstance(index, FaissIndex):
        probes = index.most_probes if "HNSW" not in factory else 64
        index.parameters = FaissParameters(probes=probes, refine_factor=4, num_candidates=100)
    return index


@pytest.mark.parametrize("num_candidates", [1, 7, 100, 1000])
def test_every_index_finds_so_many_different_rows_best_first(index, num_candidates):
    for query in QUERIES:
        scores, rows = index.search(query, num_candidates)
        assert scores.shape == rows.shape == (num_candidates,)
        assert (scores.dtype, rows.dtype) == (np.float32, np.int64)
        assert (np.diff(scores) <= 0).all()
        assert len(set(rows.tolist())) == num_candidates
        assert 0 <= rows.min() <= rows.max() < SIZE


@pytest.mark.parametrize("num_candidates", [SIZE, SIZE + 1, 10**18])
def test_a_search_of_every_index_for_all_rows_gives_each_row_once(index, num_candidates):
    scores, rows = index.search(QUERIES[0], num_candidates)
    assert sorted(rows.tolist()) == list(range(SIZE))
    assert (np.diff(scores) <= 0).all()


def test_every_index_finds_most_of_the_nearest_rows(index):
    nearest = np.argsort(-QUERIES @ EMBEDDINGS.T, axis=1)[:, :10]
    found = [index.search(query, 100)[1] for query in QUERIES]
    assert np.mean([np.isin(a, b).mean() for a, b in zip(nearest, found, strict=True)]) > 0.9


def test_the_scores_of_every_index_are_near_the_inner_products(index, factory):
    for query in QUERIES:
        scores, rows = index.search(query, 10)
        tolerance = 1e-5 if factory in EXACT or factory == "HNSW16" else 0.15
        np.testing.assert_allclose(scores, EMBEDDINGS[rows] @ query, atol=tolerance)
        for num_candidates in (1, 10, 200, SIZE) if factory in EXACT else ():
            best = np.sort(EMBEDDINGS @ query)[::-1][:num_candidates]
            found = index.search(query, num_candidates)[0]
            np.testing.assert_allclose(found, best, atol=1e-5)


@pytest.mark.parametrize("few", [0, 100])
@pytest.mark.parametrize("count", [0, 5, 90, 300, 2000, SIZE])
def test_every_index_finds_the_nearest_of_some_rows(index, factory, monkeypatch, few, count):
    # So small that rows are copied, selected and compared one by one here.
    monkeypatch.setattr(faiss_index, "FEW_ROWS", few)
    monkeypatch.setattr(faiss_index, "_COPIED_SHARE", 0.2)
    allowed = np.random.default_rng(3).permutation(SIZE) < count
    some = index.restricted_to(allowed)
    assert some.size == count
    for query in QUERIES:
        for num_candidates in (1, 10, count, SIZE):
            scores, rows = some.search(query, num_candidates)
            assert len(scores) == len(set(rows.tolist())) == min(num_candidates, count)
            assert allowed[rows].all()
            assert (np.diff(scores) <= 0).all()
        if count:
            rows = np.flatnonzero(allowed)
            nearest = rows[np.argsort(-index.scores(query, rows))][:10]
            found = some.search(query, 100)[1][:10]
            least = 1 if factory in EXACT else 0.6
            assert len({*found.tolist()} & {*nearest.tolist()}) >= least * len(nearest)


def test_every_index_reconstructs_its_embeddings_approximately(index, factory):
    rows = np.array([5, 2999, 17, 5])
    found = index.embeddings(rows)
    assert found.shape == (4, DIM)
    cosines = np.sum(found * EMBEDDINGS[rows], axis=1) / np.linalg.norm(found, axis=1)
    assert cosines.min() > (0.9999 if factory in EXACT else 0.9)


def test_every_index_finds_the_same_after_saving_and_loading(index, tmp_path):
    path = tmp_path / "index"
    index.save(path)
    loaded = type(index).load(path)
    loaded.parameters = index.parameters
    assert (loaded.dim, loaded.size) == (index.dim, index.size) == (DIM, SIZE)
    for query in QUERIES:
        for num_candidates in (10, SIZE):
            expected = [part.tobytes() for part in index.search(query, num_candidates)]
            assert [part.tobytes() for part in loaded.search(query, num_candidates)] == expected
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_every_index_searches_on_the_calling_thread_alone(index):
    def is_alone() -> bool:
        everywhere, here = time.process_time(), time.thread_time()
        for _ in range(3):
            for query in QUERIES:
                index.search(query, 100)
            index.search(QUERIES[0], SIZE)
        everywhere, here = time.process_time() - everywhere, time.thread_time() - here
        return everywhere < 1.2 * here + 0.01

    # The threads that built the index may still be spinning at first.
    assert any(is_alone() for _ in range(20))


def test_threads_that_search_any_index_at_once_find_the_same(index):
    expected = [index.search(query, 50)[1].tolist() for query in QUERIES]
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda query: index.search(query, 50)[1].tolist(), [*QUERIES] * 5)
        assert list(found) == expected * 5


@pytest.fixture(params=[FaissIndex, ExactIndex], ids=["faiss", "exact"])
def engine(request) -> type[Engine]:
    return request.param


@pytest.mark.parametrize("content", [None, b"", b"no index"])
def test_a_file_that_is_no_index_is_refused_by_name(engine, tmp_path, content):
    path = tmp_path / engine.file_name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CorruptIndexError, match=engine.file_name):
        engine.load(path)


def test_an_index_is_not_saved_where_there_is_no_folder(engine, tmp_path):
    with pytest.raises(StorageError, match=r"^cannot write .*/none/index: No such file"):
        engine.create(engine.default_factory(0, 2), 2).save(tmp_path / "none" / "index")


def test_a_factory_string_that_the_engine_does_not_have_is_refused(engine):
    with pytest.raises(InvalidArgumentError, match=r"^'nonsense' is no "):
        engine.create("nonsense", 2)


def test_an_index_is_opened_as_its_manifest_describes_it(tmp_path):
    index = FaissIndex.create("Flat", 2)
    index.add(POINTS)
    index.parameters = replace(index.parameters, num_candidates=7)
    index.save(tmp_path / index.file_name)
    details = index_details(FaissIndex, "its type", index)
    assert details["engine"] == "faiss"
    files = describe_files(tmp_path, [index.file_name])
    details["num_passages"] = len(POINTS)
    manifest = Manifest("index", 2, "plane", files, "a test", details=details)
    opened = open_index(tmp_path, manifest)
    assert type(opened) is FaissIndex
    assert opened.parameters == index.parameters
    del details["engine"]  # as in old manifests
    assert type(open_index(tmp_path, manifest)) is FaissIndex
    for other in (replace(manifest, dim=3), replace(manifest, files={})):
        with pytest.raises(ArtefactError, match=r"says 4 of 3|does not list index\.faiss"):
            open_index(tmp_path, other)


def test_an_engine_that_is_not_there_is_refused(small_index, tmp_path):
    shutil.copytree(small_index, tmp_path, dirs_exist_ok=True)
    manifest = read_manifest(tmp_path)
    details = {**manifest.details, "engine": "nothing"}
    write_manifest(tmp_path, replace(manifest, details=details))
    said = r"cannot be opened: there is no index engine 'nothing'; there is faiss"
    with pytest.raises(ManifestError, match=said):
        Searcher.open(tmp_path, DEFAULT_ENCODER)
