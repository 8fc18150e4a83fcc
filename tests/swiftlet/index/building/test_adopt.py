import contextlib
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swiftlet.cli.terminal import ProgressBars
from swiftlet.corpora.fields import Fields
from swiftlet.corpora.vectors import VectorBlock
from swiftlet.encoders import DEFAULT_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.errors import (
    CollectionError,
    EmbeddingSpaceMismatch,
    InvalidArgumentError,
    RetrievalError,
)
from swiftlet.index.building.adopt import adopt
from swiftlet.index.building.adopted import Adopted
from swiftlet.index.building.build import BuildSettings, build, build_index
from swiftlet.index.contents import Contents
from swiftlet.index.space_sample import space_of, space_sample
from swiftlet.index.vectors_export import export_vectors
from swiftlet.manifest import load_manifest
from swiftlet.progress import Silence
from swiftlet.publication import working_directory
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document, Embeddings
from tests.command_line import refusal, swiftlet

WORDS = ("lava", "ash", "bread", "yeast", "chess", "king", "moon", "tide", "bow", "string")


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path / "index"


def rows_of(count: int) -> list[dict[str, Any]]:
    return [{"id": f"r{n}", "text": f"{WORDS[n % 10]} number {n}"} for n in range(count)]


def vectors_of(count: int, dim: int = 8) -> Embeddings:
    found = np.random.default_rng(1).standard_normal((count, dim)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def write_lines(path: Path, rows: list[dict[str, Any]], vectors: Embeddings) -> Path:
    lines = ({**row, "vector": vector.tolist()} for row, vector in zip(rows, vectors, strict=True))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def contents_of(index: Path) -> list[tuple[str, str, tuple[tuple[int, int], ...]]]:
    contents = Contents(index, load_manifest(index, "index"))
    return [(each.document_id, each.text, each.passages) for each in contents.documents()]


def embeddings_of(index: Path) -> Embeddings:
    contents = Contents(index, load_manifest(index, "index"))
    list(contents.documents())
    return np.concatenate([*contents.embeddings()])


def hits_of(index: Path, query: str, mode: str) -> list[Any]:
    searcher = Searcher.open(index, LOOKUP_QUERY_ENCODER)
    try:
        found = searcher.search(query, 10, mode=mode)
        return [(each.document_id, each.score, each.passage, each.metadata) for each in found]
    finally:
        searcher.close()


documents = st.lists(
    st.tuples(
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=60), st.text("abc", max_size=3)
    ),
    min_size=1,
    max_size=5,
).map(
    lambda found: [
        Document(f"d{n}", " ".join(words), title, {"n": n})
        for n, (words, title) in enumerate(found)
    ]
)


@pytest.mark.check
@settings(max_examples=8)
@given(documents=documents, query=st.sampled_from(WORDS))
def test_adopting_what_export_vectors_wrote_gives_the_same_hits_and_scores(
    tmp_path_factory, documents, query
):
    folder = tmp_path_factory.mktemp("adopt")
    short = BuildSettings(passage_tokens=20, overlap_tokens=4)
    build_index(documents, LOOKUP_QUERY_ENCODER, folder / "built", short)
    export_vectors(folder / "built", folder / "vectors.parquet")
    adopt(folder / "vectors.parquet", folder / "adopted", encoder=LOOKUP_QUERY_ENCODER)
    for mode in ("dense", "lexical", "hybrid"):
        expected = hits_of(folder / "built", query, mode)
        assert hits_of(folder / "adopted", query, mode) == expected
    export_vectors(folder / "adopted", folder / "again.parquet")
    tables = [pyarrow.parquet.read_table(folder / f"{n}.parquet") for n in ("vectors", "again")]
    assert tables[0].equals(tables[1])


def test_each_row_is_a_document_unless_a_field_names_it(out, tmp_path):
    rows, vectors = rows_of(6), vectors_of(6)
    for n, row in enumerate(rows):
        row |= {"page": f"p{n % 2}", "part": 5 - n}
    file = write_lines(tmp_path / "v.jsonl", rows, vectors)
    adopt(file, tmp_path / "rows")
    assert [each[0] for each in contents_of(tmp_path / "rows")] == [row["id"] for row in rows]
    adopt(file, out, document_field="page", passage_field="part")
    first, second = contents_of(out)
    assert (first[0], second[0]) == ("p0", "p1")
    assert first[1].split("\n\n") == ["chess number 4", "bread number 2", "lava number 0"]
    assert second[1].split("\n\n") == ["king number 5", "yeast number 3", "ash number 1"]
    assert [first[1][start:end] for start, end in first[2]] == first[1].split("\n\n")
    assert np.array_equal(embeddings_of(out), vectors[[4, 2, 0, 5, 3, 1]])


def test_rows_without_text_are_documents_that_are_found_by_id(out):
    manifest = adopt(vectors_of(5), out)
    assert manifest.details["language"] is None
    assert contents_of(out) == [(f"{n}", "", ((0, 0),)) for n in range(5)]
    assert np.array_equal(embeddings_of(out), vectors_of(5))


def test_the_space_of_vectors_is_a_hash_of_a_sample_with_its_texts(out, tmp_path):
    file = write_lines(tmp_path / "v.jsonl", rows_of(300), vectors_of(300))
    manifest = adopt(file, out)
    texts, vectors = space_sample(out)
    assert manifest.embedding_space == space_of(vectors)
    assert len(texts) == len(vectors) == 256
    by_text = {
        row["text"]: vector for row, vector in zip(rows_of(300), vectors_of(300), strict=True)
    }
    assert all(np.array_equal(by_text[text], vectors[n]) for n, text in enumerate(texts))
    again = adopt(vectors_of(300), tmp_path / "again", texts=rows_of(300))
    assert again.embedding_space == manifest.embedding_space
    once = adopt(vectors_of(300), tmp_path / "once", texts=iter(rows_of(300)))
    assert once.embedding_space == manifest.embedding_space


def test_an_encoder_that_gives_other_vectors_is_refused(out, tmp_path):
    file = write_lines(tmp_path / "v.jsonl", rows_of(20), vectors_of(20, 384))
    with pytest.raises(EmbeddingSpaceMismatch, match="is another model, or pools its tokens"):
        adopt(file, out, encoder=DEFAULT_ENCODER)
    assert not out.exists()


def test_vectors_of_other_lengths_are_normalised_for_cosines_only(out):
    long = 3 * vectors_of(5)
    manifest = adopt(long, out)
    assert manifest.normalised
    assert np.allclose(embeddings_of(out), vectors_of(5), atol=1e-6)


class Failing:
    """A source that ends with an error at a row, and notes where it was asked to begin."""

    name, dim, metric = "the source", 8, None
    num_rows: int | None = 30

    def __init__(self, fails_at: int | None, bad_id: str = "") -> None:
        self._fails_at, self._bad_id = fails_at, bad_id
        self.bad_row = 20
        self.began = list[int]()

    def blocks(self, first: int = 0) -> Iterator[VectorBlock]:
        self.began.append(first)
        rows, vectors = rows_of(30), vectors_of(30)
        if self._bad_id:
            rows[self.bad_row]["id"] = self._bad_id
        for start in range(first, 30, 5):
            if start == self._fails_at:
                raise ConnectionError("the line is cut")
            yield VectorBlock(rows[start : start + 5], vectors[start : start + 5])


def test_an_interrupted_adoption_goes_on_with_the_rows_that_it_lacks(out):
    with pytest.raises(ConnectionError):
        adopt(Failing(15), out)
    assert not out.exists()
    assert working_directory(out).is_dir()
    source = Failing(None)
    adopt(source, out)
    assert source.began[-1] == 15
    assert [each[0] for each in contents_of(out)] == [f"r{n}" for n in range(30)]
    assert np.array_equal(embeddings_of(out), vectors_of(30))
    assert not working_directory(out).exists()


def test_other_vectors_are_read_from_the_start(out):
    with pytest.raises(ConnectionError):
        adopt(Failing(15), out)
    adopt(vectors_of(7), out)
    assert np.array_equal(embeddings_of(out), vectors_of(7))


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("changed", ["texts", "ids", "fields", "parquet", "memory"])
def test_a_run_after_a_fault_reads_what_changed_since(out, tmp_path, changed, overwrite):
    rows, vectors = rows_of(6), vectors_of(6)
    again = [{"id": f"new{n}", "text": f"other {n}", "body": f"body {n}"} for n in range(6)]
    np.save(tmp_path / "v.npy", vectors)

    def attempt(out: Path, rows: list[dict[str, Any]], *, is_good: bool) -> None:
        more = rows if is_good else [*rows, {"id": "more", "text": "one too many"}]
        lines = "".join(json.dumps(row) + "\n" for row in more)
        texts, ids, table = (tmp_path / name for name in ("t.jsonl", "ids.txt", "v.parquet"))
        options: dict[str, Any] = {"overwrite": overwrite}
        if changed == "memory":
            build(more, out, embeddings=vectors, **options)
        elif changed == "parquet":
            held = [{**row, "v": vector} for row, vector in zip(rows, vectors, strict=True)]
            held[-1] |= {} if is_good else {"id": rows[0]["id"]}
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(held), table)
            adopt(table, out, **options)
        else:
            texts.write_text(lines if changed == "texts" else json.dumps(again[0]) + "\n")
            if changed == "texts":
                adopt(tmp_path / "v.npy", out, texts=texts, **options)
            elif changed == "ids":
                ids.write_text("".join(f"{row['id']}\n" for row in rows))
                encoder = None if is_good else LOOKUP_QUERY_ENCODER  # of another width
                adopt(tmp_path / "v.npy", out, ids=ids, encoder=encoder, **options)
            else:
                texts.write_text("".join(json.dumps(row) + "\n" for row in again))
                fields = Fields(text=("body",) if is_good else ("text",))
                encoder = None if is_good else LOOKUP_QUERY_ENCODER
                place = tmp_path / "v.npy"
                adopt(place, out, texts=texts, fields=fields, encoder=encoder, **options)

    with pytest.raises(RetrievalError):
        attempt(out, rows, is_good=False)
    assert not working_directory(out).exists()
    attempt(out, again, is_good=True)
    attempt(tmp_path / "fresh", again, is_good=True)
    assert contents_of(out) == contents_of(tmp_path / "fresh")
    assert "new0" in contents_of(out)[0][0]


@pytest.mark.parametrize("changed", ["nothing", "texts", "fields", "overwrite"])
def test_only_an_interrupted_run_of_the_same_files_and_options_is_gone_on_with(
    out, tmp_path, monkeypatch, changed
):
    rows = [{**row, "body": f"body of {row['id']}"} for row in rows_of(6)]
    np.save(tmp_path / "v.npy", vectors_of(6))
    texts = tmp_path / "t.jsonl"
    texts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with monkeypatch.context() as patched:
        patched.setattr(Adopted, "other_texts", interrupted)
        with pytest.raises(KeyboardInterrupt):
            adopt(tmp_path / "v.npy", out, texts=texts)
    assert (working_directory(out) / "embeddings.f32").is_file()
    if changed == "texts":
        texts.write_text("".join(json.dumps(row) + "\n" for row in reversed(rows)))
    options: dict[str, Any] = {
        "fields": {"fields": Fields(text=("body",))},
        "overwrite": {"overwrite": True},
    }
    progress = Began()
    adopt(tmp_path / "v.npy", out, texts=texts, progress=progress, **options.get(changed, {}))
    assert progress.rows["Reading vectors"] == (6 if changed == "nothing" else 0)
    first = contents_of(out)[0]
    assert first[0] == ("r5" if changed == "texts" else "r0")
    assert first[1].startswith("body") == (changed == "fields")


class Began(Silence):
    """How much of each work was done when it began."""

    def __init__(self) -> None:
        self.rows = dict[str, int]()

    def begin(self, name: str, total: int | None = None, done: int = 0) -> None:
        self.rows[name] = done


def interrupted(_: Adopted) -> list[str]:
    raise KeyboardInterrupt


def test_rows_whose_texts_changed_in_a_source_are_read_from_the_start(out):
    with pytest.raises(ConnectionError):
        adopt(Failing(15), out)
    source = Failing(None, "r-new")
    source.bad_row = 3
    adopt(source, out)
    assert contents_of(out)[3][0] == "r-new"


def test_an_id_that_comes_twice_is_refused_with_its_row(out):
    with pytest.raises(CollectionError, match=r"row 21: the id 'r3' came before.*document_field"):
        adopt(Failing(None, "r3"), out)
    assert not out.exists()


def passage(start: int, number: int = 0) -> dict[str, Any]:
    """A row as `export_vectors` writes it."""
    return {
        "passage_id": f"d#{number}", "document_id": "d", "start": start, "end": start + 5,
        "text": "hello",
    }  # fmt: skip


def test_passages_that_are_far_apart_are_joined_and_take_no_memory(out, tmp_path):
    rows = [passage(0), passage(300_000_000, 1)]
    tracemalloc.start()
    try:
        adopt(write_lines(tmp_path / "v.jsonl", rows, vectors_of(2)), out)
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()
    assert contents_of(out) == [("d", "hello\n\nhello", ((0, 5), (7, 12)))]


@pytest.mark.parametrize(
    ("row", "settings", "problem"),
    [
        (passage(2**63), {}, "row 2: the passage is from 9223372036854775808"),
        (passage(2**53), {}, "row 2: the passage is from 9007199254740992"),
        (
            {"d": "x", "p": 10**30},
            {"document_field": "d", "passage_field": "p"},
            r"row 2: 'p' is 1000.* beyond",
        ),
    ],
)
def test_a_place_that_no_database_takes_is_refused_with_its_row(
    row, settings, problem, out, tmp_path
):
    first = {**row, "p": 1} if settings else passage(0)
    file = write_lines(tmp_path / "v.jsonl", [first, row], vectors_of(2))
    with pytest.raises(CollectionError, match=problem):
        adopt(file, out, **settings)
    assert not out.exists()


def test_texts_that_no_vector_takes_are_counted_and_missing_ones_are_noticed_first(out, tmp_path):
    file = write_lines(tmp_path / "v.jsonl", [{"id": "r4"}, {"id": "r0"}], vectors_of(2))
    texts = tmp_path / "t.jsonl"
    texts.write_text("".join(json.dumps(row) + "\n" for row in rows_of(5)))
    said = swiftlet("adopt", file, "--texts", texts, "--out", out).stderr
    assert "3 of the texts are left out: no vector has their ids" in said
    assert "replaced" not in said
    own = write_lines(tmp_path / "own.jsonl", [{"id": "r4", "text": "own"}], vectors_of(1))
    said = swiftlet("adopt", own, "--texts", texts, "--out", tmp_path / "replaced").stderr
    assert "the texts of the rows are replaced by those of the corpus" in said
    said = swiftlet("adopt", file, "--out", tmp_path / "alone").stderr
    assert "left out" not in said
    result = swiftlet("adopt", file, "--texts", tmp_path / "no", "--out", tmp_path / "other")
    assert refusal(result) == f"{tmp_path / 'no'}: there is no such file or folder"
    assert "Reading vectors" not in result.output


def test_a_text_of_another_name_is_asked_for(out, tmp_path):
    rows = [
        {"id": f"r{n}", "title": "Lava", "body": "It is hot.", "url": "x", "n": n} for n in range(3)
    ]
    file = write_lines(tmp_path / "v.jsonl", rows, vectors_of(3))
    said = swiftlet("adopt", file, "--out", out).stderr
    assert "no row has a text: if one of the fields has it, name it by --text-field" in said
    assert ": body, url\n" in said
    named = swiftlet("adopt", file, "--text-field", "body", "--out", tmp_path / "named")
    assert "no row has a text" not in named.stderr
    assert contents_of(tmp_path / "named")[0][1] == "It is hot."


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--passage-field", "n"], "--document-field (in Python document_field) names: give both"),
        (["--passage-tokens", 9], "--passage-tokens (in Python passage_tokens) is for texts that"),
        (["--overlap-tokens", 9], "--overlap-tokens (in Python overlap_tokens) is for texts that"),
        (["--truncate"], "name it by --encoder (in Python encoder), or leave out the option"),
        (["--precision", "int8"], "--precision (in Python precision) is for texts that"),
    ],
)
def test_options_that_would_change_nothing_are_refused(options, problem, out, tmp_path):
    file = write_lines(tmp_path / "v.jsonl", rows_of(3), vectors_of(3))
    assert problem in refusal(swiftlet("adopt", file, "--out", out, *options))


def test_an_index_object_of_faiss_is_asked_for_as_a_file(out):
    with pytest.raises(InvalidArgumentError, match=r"type IndexFlat.* by faiss\.write_index"):
        adopt(faiss.IndexFlatIP(8), out)  # type: ignore[arg-type]


def test_a_table_without_ids_says_how_they_are_given(out, tmp_path):
    file = write_lines(tmp_path / "v.jsonl", [{"text": "Lava."}], vectors_of(1))
    with pytest.raises(CollectionError, match=r"row 1: there is no id: .*--id-field .* and --ids"):
        adopt(file, out)


def test_only_a_faiss_file_is_served_as_it_is(out):
    with pytest.raises(InvalidArgumentError, match="no FAISS file"):
        adopt(vectors_of(9), out, as_is=True)


def test_cosines_are_served_from_a_faiss_file_only_if_its_vectors_have_the_length_1(out, tmp_path):
    for name, factor in {"long": 3, "near": 1.05}.items():
        index = faiss.IndexFlatIP(8)
        index.add(vectors_of(9) * np.where(np.arange(9) == 6, factor, 1)[:, None])
        faiss.write_index(index, f"{tmp_path / name}.faiss")
    refused = swiftlet("adopt", tmp_path / "long.faiss", "--out", out, "--metric", "cosine")
    assert "row 7: the vector has the length 3, and" in refusal(refused)
    assert "--rebuild (in Python as_is=False)" in refusal(refused)
    rebuilt = adopt(tmp_path / "long.faiss", out, metric="cosine", as_is=False)
    assert rebuilt.normalised
    assert np.allclose(embeddings_of(out), vectors_of(9), atol=1e-6)
    assert not adopt(tmp_path / "long.faiss", tmp_path / "products").normalised
    near = adopt(tmp_path / "near.faiss", tmp_path / "cosines", metric="cosine")
    assert (near.normalised, near.details["engine"]) == (True, "faiss-file")


def test_a_resumed_reading_of_rows_that_nobody_counted_says_how_many_there_were(out, capsys):
    for fails_at in (15, None):
        source = Failing(fails_at)
        source.num_rows = None
        with contextlib.suppress(ConnectionError), ProgressBars() as progress:
            adopt(source, out, progress=progress)
    said = capsys.readouterr().err
    assert "going on after 15\n" in said
    assert "read before" not in said


def test_a_build_takes_embeddings_in_place_of_an_encoder(out, tmp_path):
    rows, vectors = rows_of(5), vectors_of(5)
    file = write_lines(tmp_path / "v.jsonl", rows, vectors)
    held = [{**row, "vector": vector} for row, vector in zip(rows, vectors, strict=True)]
    for corpus, embeddings in ((rows, vectors), (file, "vector"), (held, "vector")):
        build(corpus, out, embeddings=embeddings, overwrite=True)
        assert [each[:2] for each in contents_of(out)] == [(r["id"], r["text"]) for r in rows]
        assert np.array_equal(embeddings_of(out), vectors)
    with pytest.raises(InvalidArgumentError, match="'no-such', but there is no such field"):
        build(rows, out, embeddings="no-such", overwrite=True)
    with pytest.raises(InvalidArgumentError, match="the rows are not of one length"):
        build(rows, out, embeddings=[[1, 2], [1]], overwrite=True)
    for corpus, embeddings in ((rows, vectors[:4]), (iter(held), "vector")):
        with pytest.raises(RetrievalError):
            build(corpus, out, embeddings=embeddings, overwrite=True)


def test_the_commands_adopt_add_and_search(tmp_path):
    rows, vectors, out = rows_of(6), vectors_of(6), tmp_path / "index"
    np.save(tmp_path / "v.npy", vectors[:5])
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:5]))
    file = write_lines(tmp_path / "more.jsonl", rows[5:], vectors[5:])
    result = swiftlet(
        "adopt", tmp_path / "v.npy", "--texts", tmp_path / "t.jsonl", "--out", out,
        "--metric", "inner_product",
    )  # fmt: skip
    assert (result.exit_code, "5 documents" in result.output) == (0, True)
    assert swiftlet("add", out, file, "--vector-field", "vector").exit_code == 0
    assert np.array_equal(embeddings_of(out), vectors)
    narrow = write_lines(tmp_path / "narrow.jsonl", rows[5:], vectors[5:, 1:])
    refused = swiftlet("add", out, narrow, "--vector-field", "vector")
    assert refusal(refused).startswith(f"{narrow}: row 1: the embedding of 'r5' has ")
    refused = swiftlet("add", out, tmp_path / "t.jsonl")
    assert refused.exit_code == 2
    assert 'its vector in the field "embedding"' in refused.output


def test_vectors_that_hardly_compress_are_said_to_need_finer_codes(out, tmp_path):
    np.save(tmp_path / "noise.npy", vectors_of(300, 48))
    coded = swiftlet("adopt", tmp_path / "noise.npy", "--out", out, "--factory", "PQ2x4")
    assert coded.exit_code == 0, coded.output
    assert "the recall is low" in coded.stderr
    assert "--factory SQ8 makes an index that finds more" in coded.stderr
    finer = swiftlet(
        "adopt", tmp_path / "noise.npy", "--out", out, "--factory", "SQ8", "--overwrite"
    )
    assert "recall is low" not in finer.stderr
    assert "recall@10 1.000" in finer.stdout
