import filecmp
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from swiftlet.encoders import DEFAULT_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.errors import (
    ArtefactError,
    CollectionError,
    InvalidArgumentError,
    ManifestError,
    StorageError,
)
from swiftlet.index.building.build import BuildSettings, build_index
from swiftlet.index.vectors.faiss_index import FaissIndex
from swiftlet.manifest import load_manifest, read_manifest
from swiftlet.publication import working_directory
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document

FEW = [
    Document("b", "Bees dance to show where flowers are."),
    Document("a", "Lava flows out of a volcano."),
    Document("c", "A king is mated on the chess board."),
]


@dataclass
class Listener:
    """Records the progress of a build."""

    stages: list[tuple[str, int | None, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    steps: int = 0

    def begin(self, name: str, total: int | None, done: int = 0) -> None:
        self.stages.append((name, total, done))
        self.steps = done

    def advance(self, steps: int) -> None:
        self.steps += steps

    def note(self, text: str) -> None:
        self.notes.append(text)

    def encoded_before(self) -> int:
        return next(done for name, _, done in self.stages if name == "Encoding passages")


@pytest.fixture
def short_documents(small_documents) -> list[Document]:
    """Thirty-six documents of one passage each."""
    return [document for document in small_documents if document.metadata["length"] in (1, 2, 3)]


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path / "index"


def files_of(index: Path) -> list[Path]:
    return sorted(path for path in index.rglob("*") if path.is_file())


def found(index: Path, query: str, top_k: int = 10) -> list[str]:
    searcher = Searcher.open(index, DEFAULT_ENCODER)
    try:
        return [hit.document_id for hit in searcher.search(query, top_k).hits]
    finally:
        searcher.close()


def test_the_manifest_of_an_index_has_its_settings_and_recall(small_index):
    manifest = load_manifest(small_index, "index")
    encoder = read_manifest(DEFAULT_ENCODER)
    outer = ["documents.sqlite", "index.faiss", "passage_to_document.npy"]
    assert sorted(name for name in manifest.files if "/" not in name) == outer
    assert {name.split("/")[0] for name in manifest.files} == {*outer, "columns", "lexical"}
    assert (manifest.dim, manifest.embedding_space) == (encoder.dim, encoder.embedding_space)
    assert manifest.created_by.startswith("swiftlet ")
    details = manifest.details
    assert details["encoder"] == encoder.details["name"]
    assert details["encoder_fingerprint"] == encoder.fingerprint
    assert details["precision"] == "int8"
    assert details["num_documents"] == 60
    assert details["num_passages"] > 60
    assert details["splitting"] == {
        "max_tokens": 128, "overlap_tokens": 16, "truncate": False, "headings": True,
    }  # fmt: skip
    assert details["factory"] == "Flat"
    assert details["language"] == "english"
    assert details["recall"].pop("num_queries") >= 100
    assert details["recall"] == {"recall@10 within 1%": 1.0, "recall@10": 1.0, "recall@100": 1.0}


def test_its_embeddings_are_those_of_the_encoder_row_by_row(shipped_encoder, out):
    build_index(FEW, DEFAULT_ENCODER, out)
    index = FaissIndex.load(out / "index.faiss")
    for row, document in enumerate(FEW):
        embedding = shipped_encoder.encode([document.text])[0]
        scores, rows = index.search(embedding, 1)
        assert rows.tolist() == [row]
        assert scores[0] == pytest.approx(1, abs=1e-5)
    assert np.load(out / "passage_to_document.npy").tolist() == [1, 0, 2]


def test_a_build_reports_the_begin_and_the_end_of_each_stage(out):
    listener = Listener()
    build_index(iter(FEW), DEFAULT_ENCODER, out, progress=listener)
    assert listener.stages == [
        ("Reading documents", None, 0),
        ("Indexing words", 3, 0),
        ("Encoding passages", 3, 0),
        ("Training the index", None, 0),
        ("Adding embeddings", 3, 0),
        ("Measuring recall", None, 0),
    ]
    assert listener.notes == []
    assert [*out.parent.iterdir()] == [out]


def test_the_same_corpus_gives_the_same_bytes_whatever_the_threads(
    small_index, small_documents, out
):
    settings = BuildSettings(facets=("topic", "length"), threads=3)
    build_index(small_documents, DEFAULT_ENCODER, out, settings)
    names = [str(path.relative_to(small_index)) for path in files_of(small_index)]
    assert names == [str(path.relative_to(out)) for path in files_of(out)]
    assert filecmp.cmpfiles(small_index, out, names, shallow=False) == (names, [], [])


def test_a_corpus_of_one_document_is_searched(out):
    build_index(FEW[:1], DEFAULT_ENCODER, out)
    assert found(out, "volcano") == ["b"]


def test_documents_without_text_or_with_only_a_title_are_found_all_the_same(out):
    odd = [
        Document("10", "", "How volcanoes erupt"),
        Document("9", ""),
        Document("Ä", " \n ", "x" * 5000),
        Document("é 光#0", "Lava. " * 400, "Volcanoes " * 300),
        *FEW,
    ]
    manifest = build_index(odd, DEFAULT_ENCODER, out)
    assert manifest.details["num_documents"] == 7
    hits = found(out, "volcanoes", 100)
    assert sorted(hits) == sorted(document.document_id for document in odd)
    assert set(hits[:3]) == {"10", "a", "é 光#0"}
    searcher = Searcher.open(out, DEFAULT_ENCODER)
    assert [searcher.document(document.document_id) for document in odd] == odd
    searcher.close()


def test_truncating_encodes_the_beginning_of_each_document_even_of_ten_megabytes(
    shipped_encoder, out
):
    endless = Document("endless", "Bees make honey. " * 600_000, "Honey")
    settings = BuildSettings(truncate=True, passage_tokens=10**9, overlap_tokens=10**9)
    manifest = build_index([endless, *FEW], DEFAULT_ENCODER, out, settings)
    assert manifest.details["num_passages"] == 4
    assert manifest.details["splitting"] == {
        "max_tokens": shipped_encoder.max_tokens,
        "overlap_tokens": 0,
        "truncate": True,
        "headings": True,
    }
    beginning = shipped_encoder.encode(["Honey" + " Bees make honey." * 100])[0]
    scores, rows = FaissIndex.load(out / "index.faiss").search(beginning, 1)
    assert (rows[0], scores[0]) == (0, pytest.approx(1, abs=1e-5))


@pytest.mark.parametrize("factory", ["SQ8", "IVF4,Flat", "IVF4,PQ192x4fs,Refine(SQ8)", "HNSW16"])
def test_any_supported_index_type_can_be_chosen(short_documents, out, factory):
    settings = BuildSettings(factory=factory, threads=1)
    manifest = build_index(short_documents, LOOKUP_QUERY_ENCODER, out, settings)
    assert manifest.details["factory"] == factory
    assert manifest.details["recall"]["recall@10"] >= 0.9
    assert len(found(out, "How do glaciers move?", 1000)) == 36
    assert found(out, "How do glaciers move?", 5)[0].startswith("glacier")


@pytest.mark.parametrize(
    ("factory", "problem"),
    [
        ("IVF1000,Flat", "cannot be trained on .* embeddings: Number of training points"),
        ("IDMap,Flat", "takes no embeddings"),
        ("PQ1x4fs", "cannot give back all of its .* passages"),
    ],
)
def test_an_index_type_that_cannot_hold_this_corpus_is_refused_but_nothing_is_encoded_again(
    short_documents, out, factory, problem
):
    settings = BuildSettings(factory=factory, threads=1)
    with pytest.raises(InvalidArgumentError, match=problem):
        build_index(short_documents, LOOKUP_QUERY_ENCODER, out, settings)
    assert not out.exists()
    left = sorted(path.name for path in working_directory(out).iterdir())
    assert left == ["build.json", "embeddings.f32", "hashes.u64", "lock"]
    listener = Listener()
    manifest = build_index(short_documents, LOOKUP_QUERY_ENCODER, out, progress=listener)
    assert listener.encoded_before() == manifest.details["num_passages"] == 36
    assert found(out, "How do glaciers move?")[0].startswith("glacier")
    assert [*out.parent.iterdir()] == [out]


def broken(error: BaseException) -> Iterator[Document]:
    yield from FEW
    raise error


@pytest.mark.parametrize(
    ("documents", "settings", "error"),
    [
        ([], BuildSettings(), CollectionError),
        ([*FEW, FEW[0]], BuildSettings(), CollectionError),
        (CollectionError("corpus", "bad", 3), BuildSettings(), CollectionError),
        (KeyboardInterrupt(), BuildSettings(), KeyboardInterrupt),
        (FEW, BuildSettings(passage_tokens=5), InvalidArgumentError),
        (FEW, BuildSettings(passage_tokens=1000), InvalidArgumentError),
        (FEW, BuildSettings(overlap_tokens=100), InvalidArgumentError),
        (FEW, BuildSettings(factory="Flatt"), InvalidArgumentError),
        (FEW, BuildSettings(factory="IVF0,Flat"), InvalidArgumentError),
        (FEW, BuildSettings(precision="fp32"), InvalidArgumentError),
    ],
)
@pytest.mark.parametrize("earlier", [True, False])
def test_bad_input_keeps_the_earlier_index_and_leaves_no_temporary_files(
    out, documents, settings, error, earlier
):
    if earlier:
        out.mkdir()
        (out / "manifest.json").write_text("earlier")
    if isinstance(documents, BaseException):
        documents = broken(documents)
    with pytest.raises(error) as caught:
        build_index(documents, DEFAULT_ENCODER, out, settings, overwrite=True)
    assert "\n" not in str(caught.value)
    assert [*out.parent.iterdir()] == [out] * earlier
    assert not earlier or (out / "manifest.json").read_text() == "earlier"


def unread() -> Iterable[Document]:
    pytest.fail("the corpus was read")
    yield FEW[0]


def test_an_output_that_must_not_be_written_is_refused_before_the_corpus_is_read(small_index, out):
    before = read_manifest(small_index)
    with pytest.raises(InvalidArgumentError, match=r"index exists; .* pass --overwrite \("):
        build_index(unread(), DEFAULT_ENCODER, small_index)
    assert load_manifest(small_index, "index") == before
    out.write_text("a file")
    with pytest.raises(InvalidArgumentError, match=r"index exists and is not a directory$"):
        build_index(unread(), DEFAULT_ENCODER, out, overwrite=True)
    with pytest.raises(StorageError, match=r"^cannot write .*: "):
        build_index(unread(), DEFAULT_ENCODER, out / "below")
    with pytest.raises(ManifestError, match="is not a directory"):
        build_index(unread(), out / "no encoder", out.with_name("other"))
    assert [*out.parent.iterdir()] == [out]


def test_a_second_build_of_the_same_index_is_refused_while_the_first_runs(out):
    def meanwhile() -> Iterator[Document]:
        yield FEW[0]
        with pytest.raises(
            ArtefactError, match=r"^another process is writing .*/index: wait until it ends"
        ):
            build_index(unread(), DEFAULT_ENCODER, out)
        yield FEW[1]

    assert build_index(meanwhile(), DEFAULT_ENCODER, out).details["num_documents"] == 2


@pytest.mark.parametrize("damage", ["precision", "hashes"])
def test_embeddings_by_another_encoder_are_discarded_with_a_note(out, damage):
    with pytest.raises(InvalidArgumentError):
        build_index(FEW, DEFAULT_ENCODER, out, BuildSettings(factory="IVF1000,Flat"))
    if damage == "hashes":
        (working_directory(out) / "hashes.u64").unlink()
    else:
        state = working_directory(out) / "build.json"
        state.write_text(state.read_text().replace("int8", "fp32"))
    listener = Listener()
    build_index(FEW[:2], DEFAULT_ENCODER, out, progress=listener)
    assert listener.encoded_before() == 0
    assert listener.notes == [
        "an interrupted build by another encoder or version is discarded (3 embeddings)"
    ]


def test_an_interrupted_build_of_a_corpus_that_changed_keeps_what_is_as_before(out, tmp_path):
    with pytest.raises(InvalidArgumentError):
        build_index(FEW, DEFAULT_ENCODER, out, BuildSettings(factory="IVF1000,Flat"))
    new = Document("new", "Ferns grow in the shade.")
    listener = Listener()
    build_index([new, *FEW[1:]], DEFAULT_ENCODER, out, progress=listener)
    assert listener.notes == ["2 of 3 passages are as before: their embeddings are kept"]
    build_index([new, *FEW[1:]], DEFAULT_ENCODER, tmp_path / "fresh")
    for query in ("lava", "ferns", "bread"):
        assert found(out, query) == found(tmp_path / "fresh", query)


def test_a_damaged_record_of_an_earlier_build_only_restarts_the_build(out):
    with pytest.raises(InvalidArgumentError):
        build_index(FEW, DEFAULT_ENCODER, out, BuildSettings(factory="IVF1000,Flat"))
    (working_directory(out) / "build.json").write_bytes(b'{"content": "\xff')
    listener = Listener()
    build_index(FEW, DEFAULT_ENCODER, out, progress=listener)
    assert listener.encoded_before() == 0
    assert found(out, "lava")[0] == "a"
