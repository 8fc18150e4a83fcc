"""The battery for every index engine, with cases that can be computed by hand."""

import shutil
from collections.abc import Sequence
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
from swiftlet.index.vectors import index_details, open_index
from swiftlet.index.vectors.faiss_index import FaissIndex
from swiftlet.index.vectors.tuning import TUNED_CANDIDATES, exact_rows, tune
from swiftlet.index.vectors.vector_index import Engine, VectorIndex
from swiftlet.manifest import Manifest, describe_files, read_manifest, write_manifest
from swiftlet.search.searcher import Searcher
from tests.swiftlet.index.vectors.exact_index import ExactIndex

POINTS = np.array([(1, 0), (0, 1), (0.6, 0.8), (-1, 0)], np.float32)


@pytest.fixture(params=[FaissIndex, ExactIndex], ids=["faiss", "exact"])
def engine(request: pytest.FixtureRequest) -> type[Engine]:
    return request.param


@pytest.fixture
def index(engine: type[Engine]) -> VectorIndex:
    """An index of the four points, of the engine's default type for this number."""
    return filled(engine, POINTS)


def filled(engine: type[Engine], *parts: np.ndarray) -> VectorIndex:
    points = np.concatenate(parts)
    index = empty(engine, len(points))
    index.train(points[: index.training_size(len(points))])
    for part in parts:
        index.add(part)
    return index


def empty(engine: type[Engine], size: int) -> VectorIndex:
    return engine.create(engine.default_factory(size, 2), 2)


def found(index: VectorIndex, query: Sequence[float], num_candidates: int) -> dict[int, float]:
    scores, rows = index.search(np.array(query, np.float32), num_candidates)
    assert (scores.dtype, rows.dtype) == (np.float32, np.int64)
    return {row: round(score, 4) for row, score in zip(rows.tolist(), scores.tolist(), strict=True)}


def test_an_empty_index_has_a_width_and_no_rows(engine):
    index = empty(engine, 4)
    assert (index.dim, index.size) == (2, 0)


def test_a_search_gives_the_best_rows_with_their_inner_products(index):
    assert (index.dim, index.size) == (2, 4)
    assert list(found(index, (1, 0), 2).items()) == [(0, 1.0), (2, 0.6)]
    assert list(found(index, (0.8, 0.6), 3).items()) == [(2, 0.96), (0, 0.8), (1, 0.6)]
    assert list(found(index, (-0.6, -0.8), 1).items()) == [(3, 0.6)]


@pytest.mark.parametrize("num_candidates", [4, 5, 10**18])
def test_a_search_for_all_candidates_gives_each_row_once(index, num_candidates):
    expected = [(0, 1.0), (2, 0.6), (1, 0.0), (3, -1.0)]
    assert list(found(index, (1, 0), num_candidates).items()) == expected


def test_rows_are_numbered_in_the_order_in_which_they_were_added(engine):
    index = filled(engine, POINTS[2:], POINTS[:2])
    assert list(found(index, (1, 0), 4)) == [2, 0, 3, 1]


def test_the_embeddings_of_rows_are_given_back(index):
    rows = np.array([2, 0, 2])
    np.testing.assert_allclose(index.embeddings(rows), POINTS[rows], atol=1e-3)


def test_an_index_finds_the_same_after_saving_and_opening(engine, index, tmp_path):
    index.save(tmp_path / index.file_name)
    opened = engine.load(tmp_path / index.file_name)
    assert type(opened) is type(index)
    assert (opened.dim, opened.size, opened.parameters) == (2, 4, index.parameters)
    assert found(opened, (0.8, 0.6), 4) == found(index, (0.8, 0.6), 4)


@pytest.mark.parametrize("content", [None, b"", b"no index"])
def test_a_file_that_is_no_index_is_refused_by_name(engine, tmp_path, content):
    path = tmp_path / engine.file_name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CorruptIndexError, match=engine.file_name):
        engine.load(path)


def test_an_index_is_not_saved_where_there_is_no_folder(index, tmp_path):
    with pytest.raises(StorageError, match=r"^cannot write .*/none/index: No such file"):
        index.save(tmp_path / "none" / "index")


def test_a_factory_string_that_the_engine_does_not_have_is_refused(engine):
    with pytest.raises(InvalidArgumentError, match=r"^'nonsense' is no "):
        engine.create("nonsense", 2)


@pytest.mark.parametrize("size", [4, 5_000])
def test_the_default_type_is_tuned_to_the_values_of_its_grid(engine, size):
    angles = np.random.default_rng(0).uniform(0, 6.28, size)
    points = np.stack((np.cos(angles), np.sin(angles)), axis=1).astype(np.float32)
    index = filled(engine, points)
    parameters = tune(index, points, points[:4], exact_rows(points, points[:4], 4))
    assert index.parameters is parameters
    assert parameters.num_candidates == TUNED_CANDIDATES
    for name, values in index.tuning_grid().items():
        assert list(values) == sorted(values)
        assert getattr(parameters, name) in values


def test_an_index_is_opened_as_its_manifest_describes_it(tmp_path):
    index = filled(FaissIndex, POINTS)
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
