"""Pushes, pulls and writes, and what is refused."""

import shutil
import threading
from dataclasses import replace

import pytest

import swiftlet
from swiftlet.address import Address
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.errors import (
    ArtefactError,
    GroupingError,
    IndexServerError,
    InvalidArgumentError,
    RetrievalError,
)
from swiftlet.index.columns.columns import keys_of
from swiftlet.index.server import server_at
from swiftlet.manifest import read_manifest, write_manifest
from swiftlet.search.searcher import Searcher
from swiftlet.servers import push as push_module
from swiftlet.servers.milvus import target as milvus_target
from swiftlet.servers.postgres import target as postgres_target
from swiftlet.servers.postgres.rows import check_document
from swiftlet.servers.pull import pull
from swiftlet.servers.push import push
from swiftlet.types import Document, Section
from tests.swiftlet.servers.conftest import (
    LOOKUP,
    SMALL,
    Interrupted,
    exchange_embeddings,
    exists,
    interrupt,
    make_foreign,
)


@pytest.fixture
def written(pushed) -> Address:
    """A collection that a test may change."""
    return pushed("written")


def test_documents_are_put_replaced_and_deleted(written):
    long = {"_id": "tea", "title": "Tea", "text": "Leaves are steeped. " * 60, "metadata": {"n": 1}}
    with (
        swiftlet.write(written) as writer,
        swiftlet.open(written) as searcher,
    ):
        assert writer.put([long, {"_id": "mate", "text": "Another hot drink."}]).num_documents == 2
        assert writer.num_documents == 62
        assert searcher.refresh()
        assert (searcher.num_documents, searcher.num_passages) == (62, 93)
        assert searcher.search("steeped leaves", 1)[0].document_id == "tea"
        assert searcher.document("tea").text == long["text"]
        assert len(searcher.search("leaves", 62)) == 62
        assert [hit.document_id for hit in searcher.search("hot", filter={"n": 1})] == ["tea"]
        under = Document("h", "Under a heading.", sections=(Section(0, 16, "Hot > Drinks"),))
        writer.put([under])
        assert searcher.refresh()
        assert searcher.search("under a heading", 1)[0].passage.heading == "Hot > Drinks"
        assert searcher.document("h") == under
        writer.delete(["h"])
        writer.put([{"_id": "tea", "text": "Short."}])
        assert searcher.refresh()
        assert (searcher.num_documents, searcher.num_passages) == (62, 91)
        assert searcher.document("tea") == Document("tea", "Short.")
        changed = writer.delete(["tea", "none", "mate"])
        assert (changed.num_documents, changed.unknown) == (2, ("none",))
        assert searcher.refresh()
        assert searcher.num_passages == 89
        assert not searcher.refresh()
    with pytest.raises(RetrievalError, match="writer is closed"):
        writer.manifest()


def test_several_writers_write_at_once(written):
    def write(name: str) -> None:
        with swiftlet.write(written, threads=1) as writer:
            for number in range(5):
                writer.put([{"_id": f"{name}-{number}", "text": f"{name} {number}"}])

    threads = [threading.Thread(target=write, args=[name]) for name in ("one", "two", "three")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with swiftlet.open(written) as searcher:
        assert (searcher.num_documents, searcher.num_passages) == (75, 104)
        for name in ("one", "two", "three"):
            assert searcher.document(f"{name}-4").text == f"{name} 4"


@SMALL
def test_words_of_new_documents_are_found(written):
    with swiftlet.write(written) as writer, swiftlet.open(written) as searcher:
        text = "The call zx_17.open_quux erupts."
        assert not searcher.search("zx_17.open_quux", mode="lexical").hits
        writer.put([{"_id": "new", "text": text}, {"_id": "other", "text": "Nothing."}])
        searcher.refresh()
        for query in ("quux", "zx_17.open_quux", "open_quux erupts"):
            found = searcher.search(query, 1, mode="lexical", highlight="words")[0]
            assert found.document_id == "new"
            assert {text[start:end] for start, end in found.highlights} <= {
                "zx", "17", "open", "quux", "erupts"
            }  # fmt: skip
        assert searcher.search("quux erupts", 1)[0].document_id == "new"
        writer.put([{"_id": "new", "text": "Replaced."}])
        searcher.refresh()
        assert not searcher.search("quux", mode="lexical").hits


@SMALL
def test_another_document_encoder_is_refused(written):
    with (
        swiftlet.write(written, encoder=DEFAULT_QUERY_ENCODER) as writer,
        pytest.raises(ArtefactError, match="the index was built by the encoder"),
    ):
        writer.put([{"_id": "tea", "text": "Leaves"}])


def test_a_collection_becomes_an_index_again(small_collection, small_searcher, tmp_path):
    out = tmp_path / "index"
    manifest = pull(small_collection, out, DEFAULT_ENCODER)
    assert manifest.details["facets"] == ["topic", "length"]
    with Searcher.open(out, DEFAULT_ENCODER) as pulled:
        for mode in ("hybrid", "dense", "lexical"):
            for query in ("molten rock", "moves of a king"):
                found = pulled.search(query, 10, mode=mode)
                expected = small_searcher.search(query, 10, mode=mode)
                assert [hit.document_id for hit in found] == [hit.document_id for hit in expected]
        assert pulled.document("bees-20") == small_searcher.document("bees-20")
        assert pulled.facets() == small_searcher.facets()
    with pytest.raises(InvalidArgumentError, match="exists"):
        pull(small_collection, out, DEFAULT_ENCODER)
    with pytest.raises(ArtefactError, match="the passages were encoded by"):
        pull(small_collection, tmp_path / "other", DEFAULT_QUERY_ENCODER)


def test_changes_of_an_index_are_pushed_too(server, small_index, tmp_path):
    copy = shutil.copytree(small_index, tmp_path / "index")
    with swiftlet.write(copy) as writer:
        writer.put([{"_id": "tea", "text": "Leaves are steeped in hot water."}])
        writer.delete(["bees-1"])
    address = server.address("changed")
    assert push(copy, address, overwrite=True).num_passages == 89
    with swiftlet.open(address) as searcher:
        assert searcher.document("tea").text == "Leaves are steeped in hot water."
        with pytest.raises(swiftlet.UnknownDocumentError):
            searcher.document("bees-1")


@SMALL
def test_a_push_goes_on_only_with_the_same_contents(server, small_index, tmp_path):
    index = tmp_path / "index"
    shutil.copytree(small_index, index)
    address = server.address("contents")
    with pytest.raises(KeyboardInterrupt):
        push(index, address, progress=Interrupted("Pushing passages", 60))
    with swiftlet.write(index) as writer:
        writer.delete(["tides-1"])
        writer.put([{"_id": "new", "text": "A document of one passage."}])
    with pytest.raises(InvalidArgumentError, match="a push of another index, or of this"):
        push(index, address)
    assert push(index, address, overwrite=True).num_passages == 89
    with swiftlet.open(address) as remote:
        assert remote.search("a document of one passage", 1)[0].document_id == "new"
        with pytest.raises(swiftlet.UnknownDocumentError):
            remote.document("tides-1")


@SMALL
def test_an_index_without_documents_is_pushed(server, tmp_path):
    index = tmp_path / "index"
    swiftlet.build([{"_id": "a", "text": "b"}], index, **LOOKUP)
    with swiftlet.write(index, **LOOKUP) as writer:
        writer.delete(["a"])
    address = server.address("nothing")
    assert push(index, address, **LOOKUP).num_passages == 0
    with swiftlet.open(address, **LOOKUP) as searcher:
        assert not searcher.search("b").hits


@SMALL
def test_a_push_goes_on_only_with_the_same_type_of_index(server, long_index, monkeypatch):
    address = server.address("types")
    with monkeypatch.context() as context:
        context.setattr(push_module, "_tuned", interrupt)
        with pytest.raises(KeyboardInterrupt):
            push(long_index, address, **LOOKUP, overwrite=True)
    with pytest.raises(InvalidArgumentError, match="has an index of the type FLAT; choose"):
        push(long_index, address, **LOOKUP, index_type="HNSW")
    assert push(long_index, address, **LOOKUP).recall is None
    with monkeypatch.context() as context:
        context.setattr(push_module, "_tuned", interrupt)
        with pytest.raises(KeyboardInterrupt):
            push(long_index, address, **LOOKUP, overwrite=True)
    again = {"index_type": "HNSW", "overwrite": True}
    assert push(long_index, address, **LOOKUP, **again).recall > 0.9


@SMALL
def test_a_facet_that_no_document_has_any_longer_is_not_pulled(pushed, tmp_path):
    documents = [
        {"_id": "a", "text": "b", "rare": 1, "kind": "x"},
        {"_id": "c", "text": "d", "kind": "y"},
    ]
    address = pushed("rare", documents, facets=["rare", "kind"])
    with swiftlet.write(address, **LOOKUP) as writer:
        writer.delete(["a"])
    pulled = pull(address, tmp_path / "pulled", LOOKUP_QUERY_ENCODER)
    assert pulled.details["facets"] == ["kind"]


def test_an_existing_collection_is_replaced_only_when_asked(small_index, small_collection):
    completed = r"already: an earlier push was completed; choose another .* pass --overwrite"
    with pytest.raises(InvalidArgumentError, match=completed):
        push(small_index, small_collection)


def test_a_collection_of_another_index_is_replaced_only_when_asked(long_index, small_collection):
    with pytest.raises(InvalidArgumentError, match=r"exists; choose another .* pass --overwrite"):
        push(long_index, small_collection, **LOOKUP)


@pytest.mark.parametrize("name", ["absent", "authors"])
def test_a_collection_that_is_not_there_is_named(server, name):
    with pytest.raises(
        InvalidArgumentError, match=rf"there is no .*/{name}: make it by swiftlet push"
    ):
        swiftlet.open(server.address(name))


def test_a_query_encoder_of_another_space_is_refused(small_collection, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(DEFAULT_QUERY_ENCODER, other)
    write_manifest(other, replace(read_manifest(other), embedding_space="another"))
    with pytest.raises(swiftlet.EmbeddingSpaceMismatch, match="is of the embedding space another"):
        swiftlet.open(small_collection, encoder=other)


@SMALL
def test_shards_are_pushed_without_an_index(server, tmp_path):
    documents = [
        Document(f"{number:02}", f"text number {number} " * 40, metadata={"parity": number % 2})
        for number in range(9)
    ]
    for number in (1, 2):
        out = tmp_path / "shards" / f"{number}"
        swiftlet.encode(documents, out, shard=(number, 2), **LOOKUP)
    shards = swiftlet.Shards([tmp_path / "shards"])
    address = server.address("shards")
    with pytest.raises(InvalidArgumentError, match="facet is 'kind', but no document has a value"):
        push(shards, address, **LOOKUP, facets=["kind"])
    with pytest.raises(InvalidArgumentError, match="language is 'klingon', but one of"):
        push(shards, address, **LOOKUP, language="klingon")
    assert not exists(address)
    pushed = push(shards, address, **LOOKUP, facets=["parity"], overwrite=True)
    index = tmp_path / "index"
    swiftlet.build(shards, index, **LOOKUP)
    with (
        swiftlet.open(address, **LOOKUP) as remote,
        swiftlet.open(index, **LOOKUP) as local,
    ):
        assert pushed.num_passages == local.num_passages == remote.num_passages
        found = remote.search("text number 5", 9)
        expected = local.search("text number 5", 9, mode=remote.modes[0])
        assert [hit.score for hit in found] == pytest.approx(
            [hit.score for hit in expected], abs=1e-5
        )
        assert remote.document("05") == documents[5]
        assert sorted(remote.document_ids({"parity": 1})) == ["01", "03", "05", "07"]


@pytest.mark.parametrize("after", [0, 60, 400])
def test_an_interrupted_push_goes_on(server, long_index, monkeypatch, after):
    for module, name in ((milvus_target, "_BATCH_ROWS"), (postgres_target, "_BATCH_PASSAGES")):
        monkeypatch.setattr(module, name, 50)
    monkeypatch.setattr(milvus_target, "_NOTED_BATCHES", 3)
    address = server.address(f"interrupted_{after}")
    with pytest.raises(KeyboardInterrupt, match="run the same command again"):
        push(long_index, address, progress=Interrupted("Pushing passages", after), **LOOKUP)
    refused = r"is not complete \(\d+ passages written\): run the same swiftlet push"
    with pytest.raises(InvalidArgumentError, match=refused):
        swiftlet.open(address, **LOOKUP)
    progress = Interrupted("Pushing passages", 10**6)
    assert push(long_index, address, progress=progress, **LOOKUP).num_passages == 700
    assert progress.done > 0 or after < 150
    with swiftlet.open(address, **LOOKUP) as searcher:
        assert (searcher.num_documents, searcher.num_passages) == (700, 700)
        assert searcher.document("0699").text == "text number 699"
        assert searcher.search("number 699", 1)[0].document_id == "0699"


def test_rows_with_the_embeddings_of_others_are_found(server, long_index, monkeypatch):
    address = server.address("exchanged")
    with monkeypatch.context() as context:
        context.setattr(push_module, "_check", interrupt)
        with pytest.raises(KeyboardInterrupt):
            push(long_index, address, **LOOKUP)
    exchange_embeddings(server, address)
    with pytest.raises(IndexServerError, match="do not belong to their texts: push"):
        push(long_index, address, **LOOKUP)
    with pytest.raises(InvalidArgumentError, match="has wrong passages; choose"):
        push(long_index, address, **LOOKUP)
    with pytest.raises(InvalidArgumentError, match="has wrong passages: push it again with"):
        swiftlet.open(address, **LOOKUP)


@pytest.mark.parametrize("index_type", ["IVF_SQ8", "IVF_FLAT", "HNSW"])
def test_an_index_is_tuned_and_a_search_that_needs_more_visits_all(server, long_index, index_type):
    address = server.address("lists")
    again = {"index_type": index_type, "overwrite": True, **LOOKUP}
    if index_type not in server_at(address).target.index_types:
        with pytest.raises(InvalidArgumentError, match="but one of FLAT, HNSW is expected"):
            push(long_index, address, **again)
        return
    pushed = push(long_index, address, **again)
    assert server_at(address).target(address).begun().index_type == index_type
    assert pushed.num_passages == 700
    assert pushed.recall >= 0.99
    with swiftlet.open(address, **LOOKUP) as remote, swiftlet.open(long_index, **LOOKUP) as local:
        for top_k in (10, 700, 1000):
            found = remote.search("text number 42", top_k)
            assert len(found) == min(top_k, 700)
            assert found[0].document_id == local.search("text number 42", top_k)[0].document_id


def test_a_field_with_several_values_is_filtered_by_but_not_grouped_by(pushed, tmp_path):
    documents = [
        {"_id": f"{day}", "text": "text", "kind": "ab"[day % 2], "day": f"2020-01-0{day}"}
        for day in range(1, 7)
    ]
    address = pushed("several", documents, facets=["kind", "day"])

    def ids(**conditions) -> list[str]:
        return sorted(searcher.document_ids(conditions))

    def columns() -> tuple[str | None, ...]:
        """The facets that have columns of their own, on Milvus."""
        found = getattr(searcher.parts.store, "filter_fields", None)
        return () if found is None else found.facets

    with swiftlet.write(address, **LOOKUP) as writer, swiftlet.open(address, **LOOKUP) as searcher:
        assert columns() in ((), ("kind", "day"))
        assert ids(kind="a", day={"lt": "2020-01-04"}) == ["2"]
        assert len(searcher.search_groups("text", 3, group_by="kind").groups) == 2
        writer.put([{"_id": "7", "text": "text", "kind": ["a", "c"], "day": "2020-01-07"}])
        assert searcher.refresh()
        assert columns() in ((), (None, "day"))
        assert ids(kind="a") == ["2", "4", "6", "7"]
        assert ids(kind="c", day="2020-01-07") == ["7"]
        assert ids(kind={"none": ["a"]}) == ["1", "3", "5"]
        with pytest.raises(GroupingError, match="several values"):
            searcher.search_groups("text", 3, group_by="kind")


@SMALL
def test_a_document_that_no_row_holds_is_refused_before_anything_is_written(server, tmp_path):
    documents = [{"_id": "good", "text": "b"}, {"_id": "x" * 1025, "text": "a"}]
    swiftlet.build(documents, tmp_path / "index", **LOOKUP)
    refused = "1,025 bytes of id; on .* at most 1,024 .*: (mend|shorten) it, or take the document"
    with pytest.raises(InvalidArgumentError, match=refused):
        push(tmp_path / "index", server.address("refused"), **LOOKUP)
    assert not exists(server.address("refused"))


def test_a_document_that_no_row_of_postgresql_holds_is_named():
    with pytest.raises(InvalidArgumentError, match="a character in its text"):
        check_document(Document("x", "a\0"), 1)


def test_an_index_of_postgresql_takes_the_longest_key():
    names, values = ["😀" * 512, "😀" * 10**5], ["😀" * 64, "😀" * 10**5]
    keys = [key for name in names for value in values for key in keys_of({name: value})]
    assert 2_000 < max(map(len, keys)) <= 2_704


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_collection_of_somebody_else_is_left_alone(server, small_index, overwrite):
    address = make_foreign(server, "others")
    with pytest.raises(InvalidArgumentError, match="was not made by Swiftlet: choose another"):
        push(small_index, address, overwrite=overwrite)
    with pytest.raises(InvalidArgumentError, match="was not made by Swiftlet: choose another"):
        swiftlet.open(address)


def test_a_wrong_token_is_refused(server, monkeypatch):
    if server.kind == "lite":
        pytest.skip("the small server asks for no token")
    for token in ("", "root:wrong"):
        monkeypatch.setenv("SWIFTLET_INDEX_TOKEN", token)
        with pytest.raises(InvalidArgumentError, match=r"refuses the .*INDEX_TOKEN"):
            swiftlet.open(f"{server.address('small')}")
