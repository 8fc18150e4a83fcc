"""Changes of an index, and their merge into a new base."""

import os
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from swiftlet.encoders import DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.errors import (
    ArtefactError,
    CollectionError,
    CorruptIndexError,
    InvalidArgumentError,
    RetrievalError,
    StorageError,
)
from swiftlet.index.building.build import BuildSettings, build_index
from swiftlet.index.changes.log import CHANGES_FILE, Change
from swiftlet.index.updates.directory_writer import IndexWriter
from swiftlet.index.updates.merge import merge_changes
from swiftlet.index.updates.writer import Preparation
from swiftlet.index.vectors.faiss_index import FaissIndex
from swiftlet.manifest import (
    change_details,
    load_manifest,
    read_manifest,
    write_manifest,
)
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document, Section, Span

pytest_plugins = ["tests.small_disk"]


def documents(numbers: Sequence[int], text: str = "the document of the number") -> list[Document]:
    return [
        Document(f"{number:03}", f"{text} {number} " * (1 + number % 3), metadata={"n": number})
        for number in numbers
    ]


BASE = documents(range(30))


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("built") / "index"
    build_index(BASE, LOOKUP_QUERY_ENCODER, out)
    return out


@pytest.fixture
def writer(index) -> Iterator[IndexWriter]:
    with IndexWriter(index, LOOKUP_QUERY_ENCODER) as opened:
        yield opened


def found(index: Path, query: str) -> list[tuple[str, float]]:
    with Searcher.open(index, LOOKUP_QUERY_ENCODER) as searcher:
        return [(hit.document_id, hit.score) for hit in searcher.search(query, 1000).hits]


@pytest.mark.parametrize("headings", [True, False])
def test_headings_are_read_in_changes_and_by_a_merge_as_the_index_was_built(index, headings):
    splitting = load_manifest(index, "index").details["splitting"]
    change_details(index, {"splitting": {**splitting, "headings": headings}})
    put = [
        replace(each, sections=(Section(0, len(each.text), "Wombats"),))
        for each in documents([40, 41])
    ]
    expected = {"040", "041"} if headings else set()
    with IndexWriter(index, LOOKUP_QUERY_ENCODER) as writer:
        for _ in range(2):  # as changes, and in the base
            known = writer.known_passages(each.document_id for each in put)
            writer.put(put, known=known)
            assert known.num_reused == (len(put) if writer.change > 2 else 0)
            with Searcher.open(index, LOOKUP_QUERY_ENCODER) as searcher:
                hits = searcher.search("wombats", mode="lexical").hits
            assert {hit.document_id for hit in hits} == expected
            writer.compact()


def test_a_merge_gives_the_index_that_a_build_of_the_same_documents_gives(index, writer, tmp_path):
    new = documents([3, 40, 41], "wholly new words about")
    assert writer.put(new[:2]).num_documents == 2
    assert writer.delete(["005", "040", "nobody"]).unknown == ("nobody",)
    writer.put(new[2:])
    assert writer.num_documents == 30
    assert writer.compact()
    assert not writer.compact()

    kept = [document for document in BASE if document.document_id not in ("003", "005")]
    fresh = build_index([*kept, new[0], new[2]], LOOKUP_QUERY_ENCODER, tmp_path / "fresh")
    merged = load_manifest(index, "index")
    computed = {"change", "training"}
    assert {name: value for name, value in merged.details.items() if name not in computed} == {
        name: value for name, value in fresh.details.items() if name not in computed
    }
    assert merged.files == fresh.files
    for query in ("new words", "number 7", "the document"):
        assert found(index, query) == found(tmp_path / "fresh", query)


def test_changes_during_a_merge_follow_it(index, writer):
    writer.put(documents([50]))

    def merge(*places) -> None:
        writer.put(documents([51]))
        writer.delete(["001", "050"])
        change_details(index, {"weight": 0.25})
        merge_changes(*places)

    assert writer.compact(merge=merge)
    assert (writer.num_documents, writer.change) == (30, 4)
    assert read_manifest(index).details["change"] == 1
    assert read_manifest(index).details["weight"] == 0.25
    writer.put(documents([52]))
    assert writer.compact()
    ids = [document_id for document_id, _ in found(index, "number")]
    assert sorted(ids) == sorted({f"{n:03}" for n in (*range(30), 51, 52)} - {"001"})


def test_a_merge_asks_for_the_type_that_the_size_asks_for(tmp_path):
    build_index(documents(range(20)), LOOKUP_QUERY_ENCODER, tmp_path / "index")
    build_index(
        documents(range(20)),
        LOOKUP_QUERY_ENCODER,
        tmp_path / "other",
        BuildSettings(factory="SQfp16"),
    )
    for name, factory in (("index", "Flat"), ("other", "SQfp16")):
        with IndexWriter(tmp_path / name, LOOKUP_QUERY_ENCODER) as writer:
            writer.put(documents([20]))
            writer.compact()
            details = read_manifest(tmp_path / name).details
            assert (details["factory"], details["training"]["num_passages"]) == (factory, 20)
            writer.put(documents(range(21, 41)))
            writer.compact()
            details = read_manifest(tmp_path / name).details
            assert (details["factory"], details["training"]["num_passages"]) == (factory, 41)


def test_a_merge_is_needed_when_many_documents_are_gone(writer):
    writer.delete(["001", "002", "003"])
    assert not writer.needs_merge
    writer.delete(["004"])
    assert writer.needs_merge


def test_an_index_without_documents_is_not_merged(index, writer):
    writer.delete([document.document_id for document in BASE])
    assert writer.num_documents == 0
    assert not writer.needs_merge
    assert not writer.compact()
    writer.put(documents([1]))
    assert writer.compact()
    assert [document_id for document_id, _ in found(index, "number")] == ["001"]


def test_a_merge_keeps_a_facet_that_no_document_has_any_more(tmp_path):
    one = Document("one", "tea", metadata={"kind": "drink"})
    settings = BuildSettings(facets=("kind",))
    build_index([one, Document("two", "snow")], LOOKUP_QUERY_ENCODER, tmp_path / "index", settings)
    with IndexWriter(tmp_path / "index", LOOKUP_QUERY_ENCODER) as writer:
        writer.delete(["one"])
        assert writer.compact()
    with Searcher.open(tmp_path / "index", LOOKUP_QUERY_ENCODER) as searcher:
        assert searcher.facets() == {"kind": []}


def test_an_index_has_one_writer(index, writer):
    with pytest.raises(ArtefactError, match="another process is writing"):
        IndexWriter(index, LOOKUP_QUERY_ENCODER)
    with pytest.raises(ArtefactError, match="another process is writing"):
        build_index(BASE, LOOKUP_QUERY_ENCODER, index, overwrite=True)
    writer.close()
    with IndexWriter(index, LOOKUP_QUERY_ENCODER):
        pass
    assert [*index.parent.iterdir()] == [index]


def test_a_fork_neither_writes_nor_unlocks_the_index_of_its_parent(index, writer):
    writer.put([{"id": "before", "text": "before"}])
    if not (child := os.fork()):
        refused = ""
        try:
            writer.put([{"id": "child", "text": "child"}])
        except RetrievalError as error:
            refused = f"{error}"
        finally:
            writer.close()
            os._exit("was forked" not in refused)
    assert os.waitpid(child, 0)[1] == 0
    writer.put([{"id": "after", "text": "after"}])
    with pytest.raises(ArtefactError, match="another process is writing"):
        IndexWriter(index, LOOKUP_QUERY_ENCODER)


def test_bad_documents_and_ids_are_refused_and_nothing_is_written(index, writer):
    good = {"id": "good", "text": "good"}
    for bad, problem in (
        ({"id": "empty", "text": " "}, "neither text nor title"),
        ({"id": "x" * 3000, "text": "a"}, "at most 2,048 are expected"),
        (good, "'good' came before"),
    ):
        with pytest.raises(CollectionError, match=problem):
            writer.put([good, bad])
    for ids, problem in (("001", "a list of ids"), (["001", 5], "5 is not a string")):
        with pytest.raises(InvalidArgumentError, match=problem):
            writer.delete(ids)
    assert writer.delete(["\ud800", "x" * 3000]).num_documents == 0
    assert not (index / CHANGES_FILE).exists()


def test_another_encoder_than_that_of_the_index_is_refused(index):
    with IndexWriter(index, DEFAULT_QUERY_ENCODER) as writer:
        with pytest.raises(ArtefactError, match=r"query-lookup' .*query-2-layers'"):
            writer.put(documents([1]))
        assert writer.delete(["001"]).num_documents == 1


def test_an_index_that_keeps_no_embeddings_is_refused(tmp_path, monkeypatch):
    build_index(BASE, LOOKUP_QUERY_ENCODER, tmp_path / "index", BuildSettings(language=None))

    def refuse(*_: object) -> None:
        raise InvalidArgumentError("this type of index cannot reconstruct embeddings")

    monkeypatch.setattr(FaissIndex, "embeddings", refuse)
    with pytest.raises(InvalidArgumentError, match="cannot reconstruct"):
        IndexWriter(tmp_path / "index", LOOKUP_QUERY_ENCODER)
    assert [*tmp_path.iterdir()] == [tmp_path / "index"]


def test_a_flipped_byte_in_the_changes_is_refused_by_name(index, writer):
    writer.put(documents(range(3)))
    writer.close()
    path = index / CHANGES_FILE
    whole = path.read_bytes()
    with sqlite3.connect(path) as connection:
        values = connection.execute("SELECT * FROM changes").fetchall()
    written = (b"number 1", values[2][7][40:60], values[0][2], b'{"n": 2}', b"[[0, ", b"002")
    for content in written:
        at = whole.index(content)
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(CorruptIndexError, match=CHANGES_FILE):
            IndexWriter(index, LOOKUP_QUERY_ENCODER)
    path.write_bytes(whole)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM changes WHERE change = 2")
    connection.close()
    with pytest.raises(CorruptIndexError, match="lacks change 2"):
        IndexWriter(index, LOOKUP_QUERY_ENCODER)


def test_the_changes_of_another_index_are_refused(index, writer, tmp_path):
    writer.put(documents([1]))
    writer.close()
    build_index(documents(range(5)), LOOKUP_QUERY_ENCODER, tmp_path / "other")
    shutil.copy(index / CHANGES_FILE, tmp_path / "other")
    with pytest.raises(CorruptIndexError, match="belongs to another index"):
        IndexWriter(tmp_path / "other", LOOKUP_QUERY_ENCODER)


def test_a_full_disk_loses_nothing_that_was_written(built, small_disk):
    index = Path(shutil.copytree(built, small_disk / "index"))
    with IndexWriter(index, LOOKUP_QUERY_ENCODER) as writer:
        writer.put(documents([100]))
        with pytest.raises(StorageError, match=r"cannot write .*: (No space|database or disk)"):
            writer.put(documents(range(101, 1000)), batch_documents=1000)
        ballast = small_disk / "ballast"
        with suppress(OSError):
            ballast.write_bytes(bytes(1 << 20))
        with pytest.raises(StorageError, match="cannot write"):
            writer.compact()
        ballast.unlink()
        assert (writer.num_documents, writer.change) == (31, 1)
        writer.put(documents([101]))
        subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
        assert writer.compact()
    assert len(found(index, "number")) == 32


def test_threads_may_write_while_another_merges(index, writer):
    threads = [
        threading.Thread(target=lambda n=n: writer.put(documents([60 + n]))) for n in range(3)
    ]
    threads.append(threading.Thread(target=lambda: writer.delete(["000"])))
    writer.put(documents([70]))
    for thread in threads:
        thread.start()
    assert writer.compact()
    for thread in threads:
        thread.join()
    writer.compact()
    assert len(found(index, "number")) == writer.num_documents == 33


def test_a_closed_writer_writes_nothing(tmp_path):
    build_index(
        [Document("a", "One."), Document("b", "Two.")], LOOKUP_QUERY_ENCODER, tmp_path / "index"
    )
    writer = IndexWriter(tmp_path / "index", LOOKUP_QUERY_ENCODER)
    writer.put([{"id": "c", "text": "Three."}])
    writer.close()
    for write in (
        lambda: writer.put([{"id": "d", "text": "Four."}]),
        lambda: writer.delete(["a"]),
        writer.compact,
    ):
        with pytest.raises(RetrievalError, match="the writer is closed"):
            write()
    with Searcher.open(tmp_path / "index", LOOKUP_QUERY_ENCODER) as searcher:
        assert searcher.num_documents == 3


def test_an_older_swiftlet_refuses_an_index_with_changes(tmp_path):
    out = tmp_path / "index"
    build_index([Document("a", "One."), Document("b", "Two.")], LOOKUP_QUERY_ENCODER, out)
    write_manifest(out, replace(read_manifest(out), format_version=1))
    with IndexWriter(out, LOOKUP_QUERY_ENCODER) as writer:
        assert read_manifest(out).format_version == 1
        change_details(out, {"weight": 0.25})
        writer.delete(["a"])
        assert read_manifest(out).format_version == 2
        assert read_manifest(out).details["weight"] == 0.25


def test_only_as_much_of_a_text_is_split_as_passages_are_asked_for(index, peak_megabytes):
    preparation, manifest = Preparation(None, 1), read_manifest(index)
    (every,) = preparation.spans([Document("signs", "!? " * 5_000)], manifest)
    made, document = list[tuple[Span, ...]](), Document("signs", "!? " * 1_000_000)
    assert peak_megabytes(lambda: made.extend(preparation.spans([document], manifest, 20))) < 20
    assert len(every) > len(made[0]) == 20


@pytest.mark.parametrize("forged", [{"language": "xx"}, {"language": ""}, {"analysis": 999}])
def test_an_index_whose_words_cannot_be_analysed_is_not_changed(index, forged):
    change_details(index, forged)
    with pytest.raises(CorruptIndexError, match=r"language is|version 999 of the analysis"):
        IndexWriter(index, LOOKUP_QUERY_ENCODER)
    change_details(index, {"language": "none", "analysis": 2})
    IndexWriter(index, LOOKUP_QUERY_ENCODER).close()


def test_a_long_title_takes_little_memory_while_its_passages_are_encoded(index, peak_megabytes):
    preparation, manifest = Preparation(None, 1), read_manifest(index)
    preparation.changes([Document("first", "text " * 1_000)], manifest)  # loads the encoder
    document, made = Document("long", "text " * 5_000, "w" * 4_000_000), list[Change]()
    assert peak_megabytes(lambda: made.extend(preparation.changes([document], manifest))) < 60
    assert len(made[0].passages) >= 20  # which have 80 megabytes with their titles
