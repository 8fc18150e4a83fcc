"""An index as a Parquet file: its passages with all changes, and their embeddings."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

import swiftlet
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.index.documents.passages import encoder_text
from tests.command_line import refusal
from tests.command_line import swiftlet as command

DOCUMENTS = [
    {
        "id": f"d{number}",
        "title": f"T{number}",
        "text": f"Volcano {number} erupts. " * number,
        "n": number,
    }
    for number in range(1, 30)
]
SETTINGS = {"encoder": DEFAULT_QUERY_ENCODER, "passage_tokens": 32, "overlap_tokens": 0}


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    """An index in which a document was changed, one is new, and one is deleted; read only."""
    place = tmp_path_factory.mktemp("vectors") / "index"
    swiftlet.build(DOCUMENTS, place, factory="Flat", **SETTINGS)
    with swiftlet.write(place, encoder=DEFAULT_QUERY_ENCODER) as writer:
        writer.put(
            [{"id": "d3", "text": "Bees dance."}, {"id": "new", "text": "Cats sleep. " * 40}]
        )
        writer.delete(["d5"])
    return place


def test_each_passage_is_a_row_with_its_embedding(index, tmp_path):
    result = command("export-vectors", index, "--out", tmp_path / "vectors.parquet")
    assert result.exit_code == 0, result.output
    table = pyarrow.parquet.read_table(tmp_path / "vectors.parquet")
    rows = table.to_pylist()
    assert f"{len(rows)} passages" in result.stdout
    with swiftlet.open(index, encoder=DEFAULT_QUERY_ENCODER) as searcher:
        assert len(rows) == searcher.num_passages
        found = searcher.search("volcano", 100, mode="dense").hits
        winners = {hit.passage.passage_id: hit for hit in found}
    by_id = {row["passage_id"]: row for row in rows}
    assert len(by_id) == len(rows)
    assert {row["document_id"] for row in rows} == {hit.document_id for hit in found}
    assert "d5" not in {row["document_id"] for row in rows}
    for passage_id, hit in winners.items():
        row = by_id[passage_id]
        assert (row["text"], row["start"], row["end"]) == (
            hit.passage.text, hit.passage.start, hit.passage.end
        )  # fmt: skip
        assert (row["title"], json.loads(row["metadata"])) == (hit.title, hit.metadata)
    encoder = swiftlet.load_encoder(DEFAULT_QUERY_ENCODER)
    expected = encoder.encode([encoder_text(row["title"], row["text"]) for row in rows])
    embeddings = np.array([row["embedding"] for row in rows])
    np.testing.assert_allclose(embeddings, expected, atol=1e-5)
    about = json.loads(table.schema.metadata[b"swiftlet"])
    assert about["embedding_space"] == encoder.embedding_space
    assert (about["dim"], about["metric"]) == (encoder.dim, "inner_product")


def test_half_precision_is_half_as_large(index, tmp_path):
    sizes, embeddings = [], []
    for half in (False, True):
        out = tmp_path / f"{half}.parquet"
        swiftlet.export_vectors(index, out, half=half)
        sizes.append(out.stat().st_size)
        column = pyarrow.parquet.read_table(out)["embedding"].combine_chunks()
        embeddings.append(column.flatten().to_numpy(zero_copy_only=False).astype(np.float32))
    assert sizes[1] < 0.7 * sizes[0]
    np.testing.assert_allclose(*embeddings, atol=1e-3)


def test_bad_arguments_are_refused(index, tmp_path):
    out = tmp_path / "vectors.parquet"
    out.write_text("mine")
    assert "exists" in refusal(command("export-vectors", index, "--out", out))
    said = refusal(command("export-vectors", index, "--out", tmp_path / "vectors.csv"))
    assert "does not end in .parquet" in said
    said = refusal(
        command("export-vectors", DEFAULT_QUERY_ENCODER, "--out", tmp_path / "v.parquet")
    )
    assert "is of kind 'encoder', but 'index' is needed" in said
    assert out.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
