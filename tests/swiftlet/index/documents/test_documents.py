import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from swiftlet.errors import CorruptIndexError, UnknownDocumentError, shown
from swiftlet.index.documents.passages import PassageSplitter
from swiftlet.index.documents.store import DocumentStore
from swiftlet.index.documents.writer import write_documents
from swiftlet.progress import Silence
from swiftlet.types import Document, Passage

TEXT = "First section, with 'quotes'.\n\nSecond: 光合作用 👩‍👩‍👧 and a NUL \0 in it."
DEEP = json.loads("[" * 400 + "]" * 400)
DOCUMENTS = [
    Document("z last", TEXT, "A title", {"year": 1999, "tags": ["ä", None]}, ((0, 29), (31, 67))),
    Document("whole", "A short text."),
    Document("'; DROP TABLE documents; --", "", "Only a title"),
    Document("long", "word " * 500, metadata={"deep": DEEP, "large": 10**200, "small": -1e-300}),
]


@pytest.fixture(scope="module")
def store(shipped_encoder, tmp_path_factory) -> DocumentStore:
    path = tmp_path_factory.mktemp("store") / "a #?% place.sqlite"
    splitter = PassageSplitter(shipped_encoder.tokenizer, 128, 16)
    write_documents(path, DOCUMENTS, splitter, Silence())
    return DocumentStore(path)


def test_titles_are_of_documents_from_all_parts_of_the_corpus(store):
    titles = {document.document_id: document.title for document in DOCUMENTS}
    assert store.titles(9) == store.titles(4) == titles
    assert (
        store.titles(3)
        == store.titles(2)
        == {"z last": "A title", DOCUMENTS[2].document_id: "Only a title"}
    )
    assert store.titles(1) == {"z last": "A title"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.document_id[:6])
def test_a_document_comes_back_as_it_was_written(store, document):
    assert store.document(document.document_id) == document


def test_passages_come_in_the_order_of_their_rows_with_title_and_metadata(store):
    assert (store.num_documents, store.num_passages) == (4, 9)
    only_title, second, first, whole = store.passages([3, 1, 0, 2])
    assert first.passage == Passage("z last#0", "z last", TEXT[:29], 0, 29)
    assert second.passage == Passage("z last#1", "z last", TEXT[31:67], 31, 67)
    assert (second.title, second.metadata) == ("A title", {"year": 1999, "tags": ["ä", None]})
    assert whole.passage == Passage("whole#0", "whole", "A short text.", 0, 13)
    assert (whole.title, whole.metadata) == ("", {})
    assert only_title.title == "Only a title"
    assert only_title.passage.text == ""
    assert store.passages([]) == []


def test_passages_without_text_still_have_their_place(store):
    for with_text, without in zip(
        store.passages(range(9)), store.passages(range(9), include_text=False), strict=True
    ):
        assert without.passage.text == ""
        assert (without.passage.start, without.passage.end) == (
            with_text.passage.start,
            with_text.passage.end,
        )
        assert without.metadata == with_text.metadata


@pytest.mark.parametrize("row", [-1, 9, 2**60])
def test_a_row_that_is_not_there_is_a_corrupt_index(store, row):
    with pytest.raises(CorruptIndexError, match=rf"sqlite has no passage {row}$"):
        store.passages([0, row])


@pytest.mark.parametrize("document_id", ["", "Whole", "whole ", "\ud800", "a\0", "x" * 100_000])
def test_an_unknown_document_is_named(store, document_id):
    with pytest.raises(UnknownDocumentError) as caught:
        store.document(document_id)
    assert str(caught.value) == f"no document has the id {shown(document_id)}"
    assert len(str(caught.value)) < 120


def test_threads_that_come_and_go_leave_no_open_files_behind(store):
    for _ in range(30):
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda row: store.passages([row])[0].passage.start, range(9)))
        assert found == [passage.start for passage, *_ in store.passages(range(9))]
    links = [entry for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    assert sum(link.resolve().name == "a #?% place.sqlite" for link in links) <= 5
    store.close()
    assert store._idle.empty()
    assert store.num_documents == 4


@pytest.mark.parametrize("content", [None, b"", b"no database " * 1000])
def test_a_file_that_is_no_document_store_is_refused_by_name(tmp_path, content):
    path = tmp_path / "documents.sqlite"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(
        CorruptIndexError, match=r"documents\.sqlite (is no document store|cannot be read): "
    ):
        DocumentStore(path)
    assert content is not None or not path.exists()


def test_a_replaced_file_changes_nothing_for_as_many_readers_as_were_announced(store, tmp_path):
    path = tmp_path / "store.sqlite"
    path.write_bytes(store._path.read_bytes())
    opened = DocumentStore(path, readers=3)
    path.unlink()
    path.write_bytes(b"another file")
    with opened._connection(), opened._connection():
        assert opened.document("whole") == DOCUMENTS[1]
    opened.close()
