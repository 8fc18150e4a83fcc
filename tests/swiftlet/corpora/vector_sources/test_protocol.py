"""Every source of vectors gives the same rows, from any row on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from swiftlet.corpora.vector_sources import open_vectors
from swiftlet.types import Embeddings

COUNT, DIM = 2_203, 6
IDS = [f"d{number:04}" for number in range(COUNT)]
TEXTS = [f"Text {number}." for number in range(COUNT)]
VECTORS: Embeddings = np.random.default_rng(0).normal(size=(COUNT, DIM)).astype(np.float32)
DOCUMENTS = [
    {"id": name, "text": text, "n": number}
    for number, (name, text) in enumerate(zip(IDS, TEXTS, strict=True))
]

Arguments = dict[str, Any]


def npy(folder: Path) -> Arguments:
    np.save(folder / "vectors.npy", VECTORS)
    return {"place": folder / "vectors.npy", "texts": DOCUMENTS}


def npz(folder: Path) -> Arguments:
    np.savez_compressed(folder / "vectors.npz", VECTORS)
    return {"place": folder / "vectors.npz", "texts": DOCUMENTS}


def fvecs(folder: Path) -> Arguments:
    widths = np.full((COUNT, 1), DIM, "<i4")
    (folder / "v.fvecs").write_bytes(np.hstack([widths, VECTORS.view("<i4")]).tobytes())
    return {"place": folder / "v.fvecs", "texts": DOCUMENTS}


def array_by_ids(folder: Path) -> Arguments:
    return {"place": VECTORS, "texts": DOCUMENTS[::-1], "ids": IDS}


def table(kind: pyarrow.DataType) -> pyarrow.Table:
    columns = {name: [each[name] for each in DOCUMENTS] for name in ("id", "text", "n")}
    return pyarrow.table({**columns, "vector": pyarrow.array([*VECTORS], kind)})


def parquet(folder: Path) -> Arguments:
    rows = table(pyarrow.list_(pyarrow.float32(), DIM))
    pyarrow.parquet.write_table(rows, folder / "rows.parquet", row_group_size=700)
    return {"place": folder / "rows.parquet"}


def arrow(folder: Path) -> Arguments:
    rows = table(pyarrow.list_(pyarrow.float64()))
    with pyarrow.ipc.new_file(folder / "rows.arrow", rows.schema) as writer:
        writer.write_table(rows)
    return {"place": folder / "rows.arrow"}


def saved_dataset(folder: Path) -> Arguments:
    from datasets import Dataset

    Dataset(table(pyarrow.list_(pyarrow.float32()))).save_to_disk(folder / "saved")
    return {"place": folder / "saved"}


def jsonl(folder: Path) -> Arguments:
    lines = [
        json.dumps({**row, "vector": vector.tolist()})
        for row, vector in zip(DOCUMENTS, VECTORS, strict=True)
    ]
    (folder / "rows.jsonl").write_text("\n".join(lines))
    return {"place": folder / "rows.jsonl"}


def faiss_numbers(folder: Path) -> Arguments:
    index = faiss.index_factory(DIM, "HNSW16,Flat")
    index.add(VECTORS)
    faiss.write_index(index, f"{folder / 'numbers.faiss'}")
    return {"place": folder / "numbers.faiss", "texts": DOCUMENTS, "ids": IDS}


def faiss_ids(folder: Path) -> Arguments:
    index = faiss.index_factory(DIM, "IDMap2,Flat", faiss.METRIC_INNER_PRODUCT)
    index.add_with_ids(VECTORS, np.arange(COUNT)[::-1] * 10)
    faiss.write_index(index, f"{folder / 'ids'}")
    numbered = [{**row, "id": (COUNT - 1 - row["n"]) * 10} for row in DOCUMENTS]
    return {
        "place": folder / "ids",
        "texts": numbered,
        "expected_ids": [str(row["id"]) for row in numbered],
    }


def faiss_lists(folder: Path) -> Arguments:
    index = faiss.index_factory(DIM, "IVF4,Flat")
    index.train(VECTORS)
    ids = np.arange(COUNT) * 3 + 1
    index.add_with_ids(VECTORS[::-1], ids[::-1])
    faiss.write_index(index, f"{folder / 'lists.index'}")
    numbered = [{**row, "id": int(each)} for row, each in zip(DOCUMENTS, ids, strict=True)]
    return {
        "place": folder / "lists.index",
        "texts": numbered[::-1],
        "expected_ids": [str(row["id"]) for row in numbered],
    }


SOURCES: list[Callable[[Path], Arguments]] = [
    npy, npz, fvecs, array_by_ids, parquet, arrow, saved_dataset, jsonl, faiss_numbers,
    faiss_ids, faiss_lists,
]  # fmt: skip


@pytest.mark.parametrize("write", SOURCES, ids=lambda write: write.__name__)
def test_all_rows_come_in_order_from_any_row_on(write, tmp_path):
    arguments = write(tmp_path)
    ids = arguments.pop("expected_ids", IDS)
    source = open_vectors(**arguments)
    assert source.dim == DIM
    assert source.num_rows in (None, COUNT)
    for first in (0, 1, 1_000, 1_750, COUNT - 1, COUNT):
        blocks = [*source.blocks(first)]
        rows = [row for block in blocks for row in block.rows]
        assert [row["id"] for row in rows] == ids[first:]
        assert [row["text"] for row in rows] == TEXTS[first:]
        assert [{**row, **row.get("metadata", {})}["n"] for row in rows] == [*range(first, COUNT)]
        vectors = [block.embeddings for block in blocks]
        found = np.concatenate([np.empty((0, DIM), np.float32), *vectors])
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, VECTORS[first:])
        assert all(len(block.embeddings) <= 5_000 for block in blocks)
