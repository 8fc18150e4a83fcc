"""Vectors of a corpus are no metadata: each hit would show hundreds of numbers."""

import json
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from swiftlet.corpora.fields import Fields
from swiftlet.corpora.lines import SkippedLines
from swiftlet.corpora.rows import Corpus, documents_of, documents_to_encode
from swiftlet.corpora.tables import batches_of
from swiftlet.errors import CollectionError
from swiftlet.types import Document, EmbeddedDocument

WIDE = np.random.default_rng(0).normal(size=(3, 384)).tolist()
NOTE = "'vector' is left out: it has vectors, which swiftlet adopt takes, not metadata"
ROWS = [
    {"id": f"{number}", "text": "Bees.", "vector": vector, "place": [1.5, 2.5]}
    for number, vector in enumerate(WIDE)
]


def parquet(kind: pyarrow.DataType, path: Path) -> Path:
    columns = {name: [row[name] for row in ROWS] for name in ("id", "text", "place")}
    table = pyarrow.table({**columns, "vector": pyarrow.array(WIDE, kind)})
    pyarrow.parquet.write_table(table, path)
    return path


@pytest.mark.parametrize("kind", ["parquet", "fixed", "jsonl", "rows"])
def test_a_column_of_vectors_is_left_out_with_one_note(kind, tmp_path):
    if kind == "jsonl":
        corpus = tmp_path / "corpus.jsonl"
        corpus.write_text("\n".join(map(json.dumps, ROWS)))
    elif kind == "rows":
        corpus = ROWS
    else:
        size = 384 if kind == "fixed" else -1
        corpus = parquet(pyarrow.list_(pyarrow.float32(), size), tmp_path / "corpus.parquet")
    skipped = SkippedLines()
    documents = [*documents_of(corpus, skipped=skipped)]
    assert [dict(each.metadata) for each in documents] == [{"place": [1.5, 2.5]}] * 3
    assert skipped.notes == [NOTE]


@pytest.mark.parametrize("kind", ["parquet", "rows"])
def test_an_encoder_makes_other_embeddings_than_documents_bring(kind, tmp_path):
    corpus: Corpus = [
        {"id": row["id"], "text": "Bees.", "embedding": row["vector"]} for row in ROWS
    ]
    if kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(corpus), tmp_path / "c.parquet")
        corpus = tmp_path / "c.parquet"
    assert all(isinstance(each, EmbeddedDocument) for each in documents_of(corpus))
    skipped = SkippedLines()
    documents = [*documents_to_encode(corpus, skipped=skipped)]
    assert [type(each) for each in documents] == [Document] * 3
    assert skipped.notes == [NOTE.replace("vector'", "embedding'")]
    bare = [{"id": "a", "embedding": [1.0, 2.0]}]
    with pytest.raises(CollectionError, match="the document 'a' has neither text nor title"):
        [*documents_to_encode(bare)]


def test_a_short_list_of_a_fixed_size_is_left_out_and_what_is_named_stays(tmp_path):
    table = pyarrow.table(
        {
            "id": ["a"],
            "text": ["Bees."],
            "vector": pyarrow.array([[0.5, 2.0]], pyarrow.list_(pyarrow.float32(), 2)),
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "corpus.parquet")
    (document,) = documents_of(tmp_path / "corpus.parquet")
    assert not document.metadata
    named = Fields(metadata=["vector"])
    (document,) = documents_of(tmp_path / "corpus.parquet", fields=named)
    assert document.metadata == {"vector": [0.5, 2.0]}


def test_lists_of_integers_and_of_texts_stay_metadata():
    row = {"id": "a", "text": "Bees.", "years": [*range(2000, 2100)], "words": ["bee"] * 100}
    (document,) = documents_of([row])
    assert {*document.metadata} == {"years", "words"}


def test_what_export_vectors_wrote_is_no_corpus_but_adopted(tmp_path):
    table = pyarrow.table({"passage_id": ["a#0"]}).replace_schema_metadata({"swiftlet": "{}"})
    pyarrow.parquet.write_table(table, tmp_path / "vectors.parquet")
    with pytest.raises(CollectionError, match="swiftlet adopt makes an index of them"):
        next(documents_of(tmp_path / "vectors.parquet"))


@pytest.mark.parametrize("name", ["wide.parquet", "wide.arrow"])
def test_of_wide_rows_only_a_few_are_decoded_at_a_time(name, tmp_path):
    wide = pyarrow.array(np.random.default_rng(0).normal(size=150 << 15).astype(np.float32))
    table = pyarrow.table({"vector": pyarrow.FixedSizeListArray.from_arrays(wide, 1 << 15)})
    path = tmp_path / name
    if name.endswith("parquet"):
        pyarrow.parquet.write_table(table, path)
    else:
        with pyarrow.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    sizes = [batch.num_rows for batch in batches_of(path)]
    assert sum(sizes) == 150
    assert max(sizes) * (1 << 17) <= 1 << 24
