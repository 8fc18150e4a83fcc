from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.errors import ArtefactError, CollectionError, CorruptIndexError, RetrievalError
from swiftlet.index.building.adopt import adopt
from swiftlet.index.contents import Contents
from swiftlet.index.space_sample import space_sample
from swiftlet.index.updates.directory_writer import IndexWriter
from swiftlet.manifest import describe_files, load_manifest, read_manifest, write_manifest
from swiftlet.search.searcher import Searcher
from swiftlet.types import Embeddings

ROWS = 100


def texts() -> list[dict[str, Any]]:
    return [{"_id": f"d{n:03}", "text": f"text {n}"} for n in range(ROWS)]


def zip_of(array: np.ndarray) -> bytes:
    content = BytesIO()
    np.savez(content, row=array, embedding=array)
    return content.getvalue()


@pytest.fixture(scope="module")
def vectors() -> Embeddings:
    found = np.random.default_rng(3).standard_normal((ROWS, 8)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.fixture
def index(tmp_path, vectors) -> Path:
    """An index of vectors that no encoder is known for."""
    adopt(vectors, tmp_path / "index", texts=texts())
    return tmp_path / "index"


def embeddings_of(index: Path) -> dict[str, list[float]]:
    contents = Contents(index, load_manifest(index, "index"))
    ids = [each.document_id for each in contents.documents()]
    return dict(zip(ids, np.concatenate([*contents.embeddings()]).tolist(), strict=True))


def nearest(index: Path, vector: Embeddings, top_k: int = 3) -> list[str]:
    with Searcher.open(index, None) as searcher:
        return [hit.document_id for hit in searcher.search(embedding=vector, top_k=top_k)]


def test_documents_are_put_with_their_vectors_and_merged(index, vectors):
    with IndexWriter(index, None) as writer:
        put = [
            {"_id": "d007", "text": "another text", "embedding": (3 * vectors[9]).tolist()},
            {"_id": "only-a-vector", "embedding": -vectors[5]},
        ]
        assert writer.put(put).num_documents == 2
        writer.delete(["d003"])
        expected = embeddings_of(index)
        assert {*nearest(index, vectors[9], 2)} == {"d009", "d007"}
        assert writer.compact()
    assert embeddings_of(index) == expected
    assert expected.keys() == {row["_id"] for row in texts()} - {"d003"} | {"only-a-vector"}
    assert np.allclose(expected["d007"], vectors[9], atol=1e-6)
    assert expected["d008"] == vectors[8].tolist()
    assert {*nearest(index, vectors[9], 2)} == {"d009", "d007"}
    assert nearest(index, -vectors[5], 1) == ["only-a-vector"]


def test_a_merge_keeps_the_sample_of_what_is_left(index, vectors):
    space = load_manifest(index, "index").embedding_space
    with IndexWriter(index, None) as writer:
        writer.delete([f"d{n:03}" for n in range(20)])
        assert writer.compact()
    kept, exact = space_sample(index)
    assert kept == [row["text"] for row in texts()[20:]]
    assert np.array_equal(exact, vectors[20:])
    assert load_manifest(index, "index").embedding_space == space


@pytest.mark.parametrize(
    "forged",
    [
        np.arange(9),
        np.array([(ROWS, [1] * 8)], [("row", "<i8"), ("embedding", "<f4", (8,))]),
        np.array([(-1, [1] * 8)], [("row", "<i8"), ("embedding", "<f4", (8,))]),
        np.array([(0, [1] * 7)], [("row", "<i8"), ("embedding", "<f4", (7,))]),
        np.array((0, [1] * 8), [("row", "<i8"), ("embedding", "<f4", (8,))]),
        b"",
        zip_of(np.arange(9)),
    ],
    ids=["no fields", "a row beyond", "below 0", "narrow", "no dimension", "empty", "a zip"],
)
def test_a_forged_sample_is_damage(index, forged):
    file = index / "space.npy"
    file.write_bytes(forged) if isinstance(forged, bytes) else np.save(file, forged)
    manifest = read_manifest(index)
    hashes = describe_files(index, [file.name])
    write_manifest(index, replace(manifest, files={**manifest.files, **hashes}))
    with pytest.raises(CorruptIndexError, match=r"space\.npy is damaged"):
        space_sample(index)
    with IndexWriter(index, None) as writer:
        writer.delete(["d001"])
        with pytest.raises(CorruptIndexError, match=r"space\.npy is damaged"):
            writer.compact()


def test_few_rows_of_a_sample_are_replaced_by_those_of_the_new_base(index):
    with IndexWriter(index, None) as writer:
        writer.delete([f"d{n:03}" for n in range(50)])
        new = np.eye(8, dtype=np.float32)[np.arange(80) % 8]
        writer.put(
            {"_id": f"e{n}", "text": f"new {n}", "embedding": vector}
            for n, vector in enumerate(new)
        )
        assert writer.compact()
    kept, exact = space_sample(index)
    assert kept[-1] == "new 79"
    assert np.array_equal(exact[-1], new[79])
    assert len(kept) == 130


def test_a_text_alone_is_refused_with_both_ways_out(index):
    with (
        IndexWriter(index, None) as writer,
        pytest.raises(ArtefactError, match=r'the field "embedding", or name .* with --encoder'),
    ):
        writer.put([{"_id": "new", "text": "a text"}])
    assert "new" not in embeddings_of(index)


@pytest.mark.parametrize(
    ("embedding", "problem"),
    [
        ([1.0, 2.0], "row 2: the embedding of 'new' has 2 numbers where 8 are expected"),
        ([1e300] * 8, "not finite"),
        ([10**400] * 8, "not finite"),
        ([1e18] * 8, "a number beyond"),
    ],
)
def test_a_vector_that_is_none_of_the_index_is_refused(index, vectors, embedding, problem):
    good = {"_id": "good", "embedding": vectors[0]}
    with IndexWriter(index, None) as writer, pytest.raises(CollectionError, match=problem):
        writer.put([good, {"_id": "new", "text": "a text", "embedding": embedding}])
    assert "good" not in embeddings_of(index)


@pytest.mark.parametrize(
    ("embedding", "problem"),
    [
        ([0.0] * 8, "the documents: row 213: the embedding of 'n212' is zero"),
        (None, "row 213: the document 'n212' has the embedding None where a list of"),
        ("1, 2", "row 213: the document 'n212' has the embedding '1, 2' where a list of"),
    ],
)
def test_a_bad_embedding_is_named_by_its_row_among_all_that_are_put(
    index, vectors, embedding, problem
):
    rows = [{"_id": f"n{n}", "text": "a text", "embedding": vectors[0]} for n in range(220)]
    rows[212]["embedding"] = embedding
    with IndexWriter(index, None) as writer, pytest.raises(RetrievalError) as refused:
        writer.put(rows)
    assert f"{refused.value}".startswith(problem)


def test_with_its_encoder_known_an_adopted_index_takes_texts(tmp_path, small_index):
    contents = Contents(small_index, load_manifest(small_index, "index"))
    rows = [
        {"_id": f"{n}", "text": each.text, "title": each.title}
        for n, each in enumerate(contents.documents())
        if len(each.passages) == 1
    ]
    whole = Contents(small_index, load_manifest(small_index, "index"))
    places = np.cumsum([0, *(len(each.passages) for each in whole.documents())])
    singles = [n for n, each in enumerate(whole.documents()) if len(each.passages) == 1]
    found = np.concatenate([*whole.embeddings()])[places[singles]]
    index = tmp_path / "index"
    adopt(found, index, texts=rows, encoder=DEFAULT_ENCODER)
    with IndexWriter(index, None) as writer:
        writer.put([{"_id": "new", "text": "A volcano spits lava."}])
    with Searcher.open(index, DEFAULT_ENCODER) as searcher:
        assert searcher.search("a volcano that spits lava", 1)[0].document_id == "new"
