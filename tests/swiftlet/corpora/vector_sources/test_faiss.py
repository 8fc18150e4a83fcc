"""Files of FAISS: each type gives its rows, or is refused by one sentence."""

from pathlib import Path

import faiss
import numpy as np
import pytest

from swiftlet.corpora.vector_sources import open_vectors
from swiftlet.errors import CollectionError

VECTORS = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)


def write(folder: Path, factory: str, metric: int = faiss.METRIC_L2) -> Path:
    index = faiss.index_factory(8, factory, metric)
    index.train(VECTORS)
    index.add(VECTORS)
    faiss.write_index(index, f"{folder / 'index.faiss'}")
    return folder / "index.faiss"


@pytest.mark.parametrize(
    ("factory", "metric"),
    [
        ("PQ4x4", "l2"),
        ("OPQ4,IVF4,PQ4x4", "inner_product"),
        ("SQ8", "l2"),
        ("IVF4,PQ4x4,RFlat", "inner_product"),
        ("RQ2x4", "l2"),
        ("PQ4x4fs", "inner_product"),
        ("IVF4,PQ4x4fs", "l2"),
    ],
)
def test_vectors_come_as_precisely_as_the_type_keeps_them(factory, metric, tmp_path):
    source = open_vectors(write(tmp_path, factory, int(metric == "l2")))
    assert (source.metric, source.num_rows) == (metric, 300)
    (block,) = source.blocks(first=10)
    assert [row["id"] for row in block.rows] == [f"{number}" for number in range(10, 300)]
    near = np.linalg.norm(block.embeddings[:, None] - VECTORS[None, 10:], axis=2).argmin(axis=1)
    # Codes of four bits leave enough to tell most vectors apart.
    assert (near == np.arange(290)).mean() > 0.2


def test_a_type_that_gives_no_vectors_back_still_gives_its_rows(tmp_path):
    source = open_vectors(write(tmp_path, "IVF4,ITQ4,SH4"))
    (block,) = source.blocks(first=299)
    assert not source.keeps_vectors
    assert (block.rows, block.embeddings.shape) == ([{"id": "299"}], (1, 0))


@pytest.mark.parametrize(
    ("factory", "metric", "sentence"),
    [
        ("LSH", faiss.METRIC_L2, "an IndexLSH, which keeps bits"),
        ("Flat", faiss.METRIC_L1, "its metric is L1, where L2 or INNER_PRODUCT is expected"),
    ],
)
def test_types_that_cannot_be_served_are_named(factory, metric, sentence, tmp_path):
    with pytest.raises(CollectionError, match=sentence):
        open_vectors(write(tmp_path, factory, metric))


def test_a_binary_index_and_an_empty_one_are_refused(tmp_path):
    path = tmp_path / "index.faiss"
    faiss.write_index_binary(faiss.IndexBinaryFlat(64), f"{path}")
    with pytest.raises(CollectionError, match="a binary index of FAISS"):
        open_vectors(path)
    faiss.write_index(faiss.IndexFlatL2(8), f"{path}")
    with pytest.raises(CollectionError, match="there is no vector"):
        open_vectors(path)


@pytest.mark.parametrize("factory", ["IDMap,Flat", "IVF1,Flat"])
def test_an_id_that_is_there_twice_is_named(factory, tmp_path):
    index = faiss.index_factory(8, factory)
    index.train(VECTORS)
    index.add_with_ids(VECTORS[:3], np.array([4, 70, 70]))
    faiss.write_index(index, f"{tmp_path / 'index.faiss'}")
    with pytest.raises(CollectionError, match="the id 70 is there twice"):
        open_vectors(tmp_path / "index.faiss")


@pytest.mark.parametrize("factory", ["Flat", "HNSW8,Flat"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_truncated_file_is_refused(factory, share, tmp_path):
    path = write(tmp_path, factory)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(CollectionError, match="ends too early or is damaged: copy it again"):
        open_vectors(path)


@pytest.mark.check
@pytest.mark.parametrize("factory", ["IVF4,Flat", "HNSW8,Flat", "IDMap,OPQ4,PQ4x4"])
def test_any_damage_is_refused_or_read(factory, tmp_path):
    random = np.random.default_rng(0)
    index = faiss.index_factory(8, factory)
    index.train(VECTORS)
    index.add_with_ids(VECTORS, np.arange(300) + 5) if "HNSW" not in factory else index.add(VECTORS)
    faiss.write_index(index, f"{tmp_path / 'sound.faiss'}")
    content = (tmp_path / "sound.faiss").read_bytes()
    for _ in range(12):
        damaged = bytearray(content)
        for place in random.integers(4, min(len(content), 400), 3):
            damaged[place] = random.integers(256)
        (tmp_path / "damaged.faiss").write_bytes(damaged)
        try:
            for block in open_vectors(tmp_path / "damaged.faiss").blocks():
                assert len(block.rows) == len(block.embeddings)
        except CollectionError as error:
            assert "damaged.faiss" in f"{error}"  # noqa: PT017
