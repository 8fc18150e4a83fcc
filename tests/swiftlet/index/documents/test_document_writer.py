from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swiftlet.errors import CollectionError, StorageError
from swiftlet.index.documents.passages import PassageSplitter, encoder_text
from swiftlet.index.documents.store import DocumentStore
from swiftlet.index.documents.writer import StoredCorpus, write_documents
from swiftlet.progress import Silence
from swiftlet.types import Document


@pytest.fixture(scope="module")
def splitter(shipped_encoder) -> PassageSplitter:
    return PassageSplitter(shipped_encoder.tokenizer, 16, 4)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "documents.sqlite"


def written(path: Path, documents: list[Document], splitter: PassageSplitter) -> StoredCorpus:
    return write_documents(path, documents, splitter, Silence())


def test_the_encoder_s_input_is_stored_row_by_row(path, splitter, small_documents):
    corpus = written(path, small_documents, splitter)
    expected = [
        encoder_text(document.title, passage.text)
        for document in small_documents
        for passage in splitter.split(document)
    ]
    assert (corpus.num_documents, corpus.num_passages) == (60, len(expected))
    assert list(corpus.encoder_texts()) == expected
    for row in (0, 1, 300, len(expected) - 1):
        assert list(corpus.encoder_texts(row)) == expected[row:]
        assert [*corpus.encoder_texts_at([row])] == [expected[row]]
    assert list(corpus.encoder_texts(len(expected))) == []


IDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@settings(max_examples=50, deadline=None)
@given(st.lists(IDS, min_size=1, max_size=12, unique=True), st.randoms(use_true_random=False))
def test_documents_are_numbered_in_the_order_of_their_ids_whatever_the_order_of_the_corpus(
    splitter, tmp_path_factory, ids, choice
):
    documents = [Document(document_id, "word " * choice.randrange(40)) for document_id in ids]
    path = tmp_path_factory.mktemp("order") / "documents.sqlite"
    numbers = written(path, documents, splitter).passage_to_document
    expected = [
        sorted(ids).index(passage.document_id)
        for document in documents
        for passage in splitter.split(document)
    ]
    assert numbers.tolist() == expected
    assert numbers.dtype == np.int32


def test_the_content_is_the_same_exactly_if_the_encoder_reads_the_same(
    tmp_path, splitter, small_documents
):
    first, *rest = small_documents

    def content(documents: list[Document], splitter: PassageSplitter = splitter) -> str:
        return written(tmp_path / "documents.sqlite", documents, splitter).content_sha256

    same = content(small_documents)
    other_metadata = Document("renamed", first.text, first.title, {"new": 1})
    assert content([other_metadata, *rest]) == same
    others = [
        [Document(first.document_id, first.text + " more", first.title), *rest],
        [Document(first.document_id, first.text, first.title + "!"), *rest],
        [*rest, first],
        rest,
    ]
    coarser = PassageSplitter(splitter.tokenizer, 32, 4)
    hashes = {same, content(small_documents, coarser), *map(content, others)}
    assert len(hashes) == 6


def test_a_text_that_is_one_passage_is_stored_once(path, splitter):
    text = "sesquipedalian " * 20
    whole = PassageSplitter(splitter.tokenizer, 256, 0)
    written(path, [Document(str(n), f"{n} {text}.") for n in range(1000)], whole)
    assert 1000 * len(text) < path.stat().st_size < 1.5 * 1000 * len(text)
    assert DocumentStore(path).passages([7])[0].passage.text == f"7 {text}."


def test_a_corpus_without_documents_or_with_one_id_twice_is_refused(path, splitter):
    with pytest.raises(CollectionError, match=r"^the corpus: it has no documents$"):
        written(path, [], splitter)
    twice = [Document("a", "one"), Document("b", "two"), Document("a", "three")]
    with pytest.raises(CollectionError, match=r"^the corpus: two documents have the id 'a'$"):
        written(path, twice, splitter)


def test_files_of_an_earlier_run_are_written_again(path, splitter):
    path.write_bytes(b"half of a database")
    assert written(path, [Document("a", "one")], splitter).num_documents == 1


def test_a_store_that_cannot_be_written_is_named(tmp_path, splitter):
    (tmp_path / "file").write_text("")
    for place in ("file", "none"):
        with pytest.raises(StorageError, match=rf"^cannot write .*{place}/documents\.sqlite: "):
            written(tmp_path / place / "documents.sqlite", [Document("a", "one")], splitter)
