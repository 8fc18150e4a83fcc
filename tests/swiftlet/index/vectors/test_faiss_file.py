import filecmp
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swiftlet.corpora.vector_sources import open_vectors
from swiftlet.errors import CollectionError, CorruptIndexError, InvalidArgumentError
from swiftlet.index.building.adopt import adopt
from swiftlet.index.updates.directory_writer import IndexWriter
from swiftlet.index.vectors import open_index
from swiftlet.index.vectors.faiss_file import FaissFile
from swiftlet.index.vectors.faiss_index import FaissIndex
from swiftlet.index.vectors.faiss_library import METRICS, faiss
from swiftlet.index.vectors.vector_index import scores_by
from swiftlet.manifest import load_manifest
from swiftlet.search.searcher import Searcher
from swiftlet.types import Embeddings

DIM, ROWS = 16, 2_600
"""More rows than are compared one by one, so that filters select within FAISS."""

TYPES = (
    "Flat", "HNSW8", "IVF8,Flat", "IVF8,PQ4x4", "PQ4x4", "OPQ4,PQ4x4", "PQ4x4fs", "IVF8,PQ4x4fs",
    "IDMap,Flat", "IDMap2,HNSW8", "IDMap,IVF8,PQ4x4", "PCA8,Flat", "PCA8,IVF8,SQ8", "SQ8", "SQfp16",
    "IVF8,SQ8", "PQ4x4,RFlat", "IVF8,PQ4x4fs,RFlat", "RQ2x4",
)  # fmt: skip


def vectors_of(count: int = ROWS) -> Embeddings:
    found = np.random.default_rng(5).standard_normal((count, DIM)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def write_faiss(path: Path, kind: str, metric: str = "inner_product", ids: Any = None) -> Path:
    faiss.omp_set_num_threads(1)
    index = faiss.index_factory(DIM, kind, METRICS[metric])
    vectors = vectors_of()
    if kind.startswith("OPQ"):
        faiss.downcast_VectorTransform(index.chain.at(0)).niter = 2
    index.train(vectors)
    if ids is not None or kind.startswith("IDMap"):
        index.add_with_ids(vectors, ids if ids is not None else 7 * np.arange(ROWS)[::-1] + 3)
    else:
        index.add(vectors)
    faiss.write_index(index, f"{path}")
    return path


def opened(path: Path) -> FaissFile:
    """The file, whose passages are in an order of their own."""
    order = np.random.default_rng(6).permutation(ROWS)
    index = FaissFile.open_as_it_is(path, order)
    index.parameters = index.parameters_type(probes=index.most_probes, refine_factor=16)
    return index


@pytest.mark.parametrize(
    ("kind", "metric"),
    [
        *((kind, "inner_product") for kind in TYPES),
        *((kind, "l2") for kind in ("Flat", "HNSW8", "IVF8,PQ4x4", "PCA8,IVF8,SQ8", "PQ4x4,RFlat")),
    ],
)
def test_every_type_finds_what_is_nearest_by_what_it_keeps(kind, metric, tmp_path):
    index = opened(write_faiss(tmp_path / "index.faiss", kind, metric))
    everything = index.embeddings(np.arange(ROWS))
    allowed = np.random.default_rng(7).random(ROWS) < 0.9
    for query in vectors_of(3)[::-1] + np.float32(0.1):
        exact = scores_by(metric, everything, query)
        scores, rows = index.search(query, ROWS)
        assert sorted(rows.tolist()) == [*range(ROWS)]
        assert np.allclose(scores, exact[rows], atol=1e-3)
        for found, among in (
            (index.search(query, 40), np.ones(ROWS, np.bool)),
            (index.restricted_to(allowed).search(query, 40), allowed),
        ):
            assert among[found[1]].all()
            assert len(found[1]) == 40
            assert np.allclose(found[0], exact[found[1]], atol=1e-3)
            assert (np.diff(found[0]) <= 1e-6).all()
            tenth = np.sort(exact[among])[-10]
            assert np.count_nonzero(exact[found[1]] >= tenth - 1e-3) >= 8


def test_ids_of_inverted_lists_may_be_any(tmp_path):
    ids = np.random.default_rng(8).choice(10**12, ROWS, replace=False)
    path = write_faiss(tmp_path / "index.faiss", "IVF8,Flat", ids=ids)
    rows = [row["id"] for block in open_vectors(path).blocks() for row in block.rows]
    assert rows == [f"{each}" for each in np.sort(ids)]
    index = FaissFile.open_as_it_is(path, np.arange(ROWS))
    index.parameters = index.parameters_type(probes=8)
    expected = vectors_of()[np.argsort(ids)]
    assert np.array_equal(index.embeddings(np.arange(ROWS)), expected)
    allowed = np.arange(ROWS) % 2 == 0
    found = index.restricted_to(allowed).search(expected[4], 3)[1]
    assert found[0] == 4
    assert allowed[found].all()


@pytest.mark.parametrize("kind", ["IDMap,IVF8,PQ4x4", "IVF8,PQ4x4fs"])
def test_an_adopted_file_stays_as_it_is_until_a_merge_keeps_its_type(kind, tmp_path):
    path, out = write_faiss(tmp_path / "other.faiss", kind), tmp_path / "index"
    manifest = adopt(path, out)
    assert filecmp.cmp(path, out / "index.faiss", shallow=False)
    assert manifest.details["engine"] == "faiss-file"
    before = open_index(out, manifest)
    vector = vectors_of()[5]
    with Searcher.open(out, None) as searcher:
        first = searcher.search(embedding=vector, top_k=5)
    expected = before.embeddings(np.arange(1, ROWS))
    gone = first[0].document_id
    with IndexWriter(out, None) as writer:
        writer.put([{"_id": "new", "embedding": vector}])
        writer.delete([gone])
        assert writer.compact()
    merged = load_manifest(out, "index")
    assert merged.details["factory"] == manifest.details["factory"]
    after = open_index(out, merged)
    assert after.size == ROWS
    kept = {row.tobytes() for row in np.round(expected, 3)}
    found = {row.tobytes() for row in np.round(after.embeddings(np.arange(ROWS - 1)), 3)}
    assert len(found & kept) > 0.95 * len(kept)
    with Searcher.open(out, None) as searcher:
        ids = [hit.document_id for hit in searcher.search(embedding=vector, top_k=ROWS)]
    assert "new" in ids
    assert gone not in ids


def test_a_file_of_faiss_may_be_built_anew(tmp_path):
    path, out = write_faiss(tmp_path / "other.faiss", "HNSW8", "l2"), tmp_path / "index"
    manifest = adopt(path, out, as_is=False)
    assert (manifest.details["engine"], manifest.metric) == ("faiss", "l2")
    with pytest.raises(InvalidArgumentError, match="compares by 'l2'"):
        adopt(path, tmp_path / "again", metric="cosine")
    with pytest.raises(InvalidArgumentError, match="served as it is: pass --rebuild"):
        adopt(path, tmp_path / "again", factory="Flat")


def test_a_transform_without_a_matrix_needs_no_more_rows_than_dimensions(tmp_path):
    index = faiss.index_factory(DIM, "L2norm,Flat", faiss.METRIC_INNER_PRODUCT)
    index.add(vectors_of(3))
    faiss.write_index(index, f"{tmp_path / 'v.faiss'}")
    adopt(tmp_path / "v.faiss", tmp_path / "index")
    with Searcher.open(tmp_path / "index", None) as searcher:
        found = searcher.search(embedding=vectors_of(3)[1], top_k=1)
    assert found[0].document_id == "1"


def test_reading_an_index_leaves_the_bounds_of_faiss_as_they_were(tmp_path):
    before = faiss.get_deserialization_vector_byte_limit(), faiss.get_deserialization_loop_limit()
    FaissIndex.load(write_faiss(tmp_path / "v.faiss", "Flat"))
    after = faiss.get_deserialization_vector_byte_limit(), faiss.get_deserialization_loop_limit()
    assert after == before


def test_binary_indexes_and_truncated_files_are_refused(tmp_path):
    binary = tmp_path / "binary.faiss"
    faiss.write_index_binary(faiss.IndexBinaryFlat(64), f"{binary}")
    with pytest.raises(CollectionError, match="binary index"):
        adopt(binary, tmp_path / "index")
    whole = write_faiss(tmp_path / "whole.faiss", "Flat").read_bytes()
    short = tmp_path / "short.faiss"
    short.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CollectionError, match="FAISS cannot serve it"):
        adopt(short, tmp_path / "index")
    assert not (tmp_path / "index").exists()


def test_row_numbers_of_another_file_are_noticed(tmp_path):
    index = opened(write_faiss(tmp_path / "index.faiss", "Flat"))
    index.save(tmp_path / "copy.faiss")
    np.save(tmp_path / "rows.npy", np.arange(ROWS - 1))
    with pytest.raises(CorruptIndexError, match="other rows than passages"):
        FaissFile.load(tmp_path / "copy.faiss")


@pytest.mark.parametrize(
    "forged",
    [
        np.int64(3),
        np.arange(float(ROWS)),
        np.arange(ROWS).reshape(2, -1),
        np.zeros(5, "i4,f4"),
        b"",
    ],
    ids=["no dimension", "floats", "two dimensions", "structured", "empty"],
)
def test_row_numbers_of_another_form_are_damage(forged, tmp_path):
    index = opened(write_faiss(tmp_path / "index.faiss", "Flat"))
    index.save(tmp_path / "copy.faiss")
    np.save(tmp_path / "rows.npy", forged)
    if isinstance(forged, bytes):
        (tmp_path / "rows.npy").write_bytes(forged)
    with pytest.raises(CorruptIndexError, match=r"rows\.npy is damaged"):
        FaissFile.load(tmp_path / "copy.faiss")


@pytest.mark.parametrize("kind", ["SQ8,RFlat", "PCA8,Flat", "IDMap,Flat", "IVF8,Flat", "PQ4x4fs"])
@pytest.mark.parametrize(("place", "form", "value"), [(4, "<i", 1), (8, "<q", 10**6)])
def test_a_file_whose_parts_differ_in_width_or_rows_is_refused(kind, place, form, value, tmp_path):
    path = write_faiss(tmp_path / "index.faiss", kind)
    content = bytearray(path.read_bytes())
    struct.pack_into(form, content, place, value)
    path.write_bytes(content)
    with pytest.raises(CorruptIndexError, match="is no FAISS index"):
        FaissFile.open_as_it_is(path, np.arange(ROWS))
    with pytest.raises(CollectionError, match="FAISS cannot serve it"):
        open_vectors(path)
