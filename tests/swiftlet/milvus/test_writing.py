"""Pushes, pulls and writes, and what is refused."""

import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pymilvus import DataType

import swiftlet
from loadtests.milvus_server import MilvusServer
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.indexing.build import build_index
from swiftlet.indexing.milvus import push as push_module
from swiftlet.indexing.milvus.pull import pull
from swiftlet.indexing.milvus.push import push
from swiftlet.indexing.milvus.rows import rows_of
from swiftlet.indexing.milvus.vector_index import plan_index
from swiftlet.indexing.progress import Silence
from swiftlet.retrieval.errors import (
    ArtefactError,
    GroupingError,
    IndexServerError,
    InvalidArgumentError,
    RetrievalError,
)
from swiftlet.retrieval.manifest import read_manifest, write_manifest
from swiftlet.retrieval.milvus.address import Address, parse_address
from swiftlet.retrieval.milvus.collection import Collection
from swiftlet.retrieval.milvus.filter_fields import FilterFields
from swiftlet.retrieval.milvus.schema import name_of, row_of
from swiftlet.retrieval.searcher import Searcher
from swiftlet.retrieval.types import Document, Section


@pytest.fixture
def written(server: MilvusServer, small_index: Path) -> Address:
    """A collection that a test may change."""
    address = server.address("written")
    push(small_index, address, overwrite=True)
    return address


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


def test_words_of_new_documents_are_found(written):
    with swiftlet.write(written) as writer, swiftlet.open(written) as searcher:
        if "lexical" not in searcher.modes:
            pytest.skip("the server has no words")
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
    copy = tmp_path / "index"
    swiftlet.snapshot(small_index, tmp_path / "index.tar")
    import tarfile

    with tarfile.open(tmp_path / "index.tar") as archive:
        archive.extractall(tmp_path / "files", filter="data")
    (copy,) = (tmp_path / "files").iterdir()
    with swiftlet.write(copy) as writer:
        writer.put([{"_id": "tea", "text": "Leaves are steeped in hot water."}])
        writer.delete(["bees-1"])
    address = server.address("changed")
    assert push(copy, address, overwrite=True).num_passages == 89
    with swiftlet.open(address) as searcher:
        assert searcher.document("tea").text == "Leaves are steeped in hot water."
        with pytest.raises(swiftlet.UnknownDocumentError):
            searcher.document("bees-1")


class Interrupted(Silence):
    """Interrupts a push after so many passages; notes how many an earlier push had written."""

    def __init__(self, after: int) -> None:
        self.after, self.done = after, 0

    def begin(self, name: str, total: int | None, done: int = 0) -> None:
        if name == "Pushing passages":
            self.done = done

    def advance(self, steps: int) -> None:
        self.after -= steps
        if self.after < 0:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def long_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("long") / "index"
    documents = [Document(f"{number:04}", f"text number {number}") for number in range(700)]
    build_index(documents, LOOKUP_QUERY_ENCODER, out)
    return out


def test_an_interrupted_push_goes_on(server, long_index, monkeypatch):
    monkeypatch.setattr(push_module, "_BATCH_ROWS", 50)
    monkeypatch.setattr(push_module, "_NOTED_BATCHES", 3)
    address = server.address("interrupted")
    # The words of all passages are counted first, if the server has words.
    counted = 700 if server.kind == "lite" else 0
    for after in (60, counted + 60, 400):
        progress = Interrupted(after=after)
        with pytest.raises(KeyboardInterrupt, match="run the same command again"):
            push(long_index, address, LOOKUP_QUERY_ENCODER, progress=progress)
        refused = r"is not complete \(\d+ passages written\): run the same swiftlet push"
        with pytest.raises(InvalidArgumentError, match=refused):
            swiftlet.open(address, encoder=LOOKUP_QUERY_ENCODER)
    progress = Interrupted(after=10**6)
    assert push(long_index, address, LOOKUP_QUERY_ENCODER, progress=progress).num_passages == 700
    assert progress.done == 300
    with swiftlet.open(address, encoder=LOOKUP_QUERY_ENCODER) as searcher:
        assert (searcher.num_documents, searcher.num_passages) == (700, 700)
        assert searcher.document("0699").text == "text number 699"
        assert searcher.search("number 699", 1)[0].document_id == "0699"


def test_a_push_goes_on_only_with_the_same_contents(server, small_index, tmp_path):
    index = tmp_path / "index"
    shutil.copytree(small_index, index)
    address = server.address("contents")
    with pytest.raises(KeyboardInterrupt):
        push(index, address, progress=Interrupted(after=150 if server.kind == "lite" else 60))
    with swiftlet.write(index) as writer:
        writer.delete(["tides-1"])
        writer.put([{"_id": "new", "text": "A document of one passage."}])
    with pytest.raises(InvalidArgumentError, match="is what another push has begun; choose"):
        push(index, address)
    assert push(index, address, overwrite=True).num_passages == 89
    with swiftlet.open(address) as remote:
        assert remote.search("a document of one passage", 1)[0].document_id == "new"
        with pytest.raises(swiftlet.UnknownDocumentError):
            remote.document("tides-1")


def test_an_index_without_documents_is_pushed(server, tmp_path):
    index = tmp_path / "index"
    swiftlet.build([{"_id": "a", "text": "b"}], index, encoder=LOOKUP_QUERY_ENCODER)
    with swiftlet.write(index, encoder=LOOKUP_QUERY_ENCODER) as writer:
        writer.delete(["a"])
    address = server.address("nothing")
    assert push(index, address, LOOKUP_QUERY_ENCODER).num_passages == 0
    with swiftlet.open(address, encoder=LOOKUP_QUERY_ENCODER) as searcher:
        assert not searcher.search("b").hits


def test_rows_with_the_embeddings_of_others_are_found(server, long_index, monkeypatch):
    address = server.address("exchanged")
    monkeypatch.setattr(push_module, "tuned", interrupt)
    with pytest.raises(KeyboardInterrupt):
        push(long_index, address, LOOKUP_QUERY_ENCODER)
    collection = Collection(address)
    rows = collection.call("query", filter="", limit=700, output_fields=["*"])
    embeddings = [row["embedding"] for row in rows]
    for row, other in zip(rows, [*embeddings[1:], embeddings[0]], strict=True):
        row["embedding"] = other
    collection.call("upsert", data=rows)
    collection.rows([0], ["document_id"], exactly=True)
    with pytest.raises(IndexServerError, match="not those of their texts: push"):
        push(long_index, address, LOOKUP_QUERY_ENCODER)
    with pytest.raises(InvalidArgumentError, match="has wrong passages; choose"):
        push(long_index, address, LOOKUP_QUERY_ENCODER)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"_id": "x" * 1025, "text": "a"}, "1,025 bytes of id"),
        ({"_id": "x", "text": "a", "title": "t" * 70_000}, "70,000 bytes of title"),
        ({"_id": "x", "text": "a", "k": [*map(str, range(65))]}, "65 values of the field 'k'"),
    ],
)
def test_a_document_that_no_row_holds_is_refused_before_anything_is_written(
    server, fields, problem, tmp_path
):
    swiftlet.build(
        [{"_id": "good", "text": "b"}, fields],
        tmp_path / "index",
        encoder=LOOKUP_QUERY_ENCODER,
        truncate=True,
    )
    address = server.address("refused")
    with pytest.raises(InvalidArgumentError, match=f"{problem}.*: shorten it, or take the docu"):
        push(tmp_path / "index", address, LOOKUP_QUERY_ENCODER)
    assert not Collection(address).exists()


@pytest.mark.parametrize("index_type", ["IVF_SQ8", "IVF_FLAT", "HNSW"])
def test_an_index_is_tuned_and_a_search_that_needs_more_visits_all(server, long_index, index_type):
    address = server.address("lists")
    pushed = push(long_index, address, LOOKUP_QUERY_ENCODER, index_type=index_type, overwrite=True)
    collection = Collection(address)
    assert collection.call("describe_index", index_name="embedding")["index_type"] == index_type
    assert pushed.num_passages == 700
    assert pushed.recall is not None
    assert pushed.recall >= 0.99
    with (
        swiftlet.open(address, encoder=LOOKUP_QUERY_ENCODER) as remote,
        swiftlet.open(long_index, encoder=LOOKUP_QUERY_ENCODER) as local,
    ):
        for top_k in (10, 700, 1000):
            found = remote.search("text number 42", top_k)
            assert len(found) == min(top_k, 700)
            assert found[0].document_id == local.search("text number 42", top_k)[0].document_id


def test_the_type_of_an_index_depends_on_the_number_of_passages():
    assert [plan_index(size, None).index_type for size in (50_000, 50_001)] == ["FLAT", "IVF_SQ8"]
    assert plan_index(1_000_000, None).parameters == {"nlist": 1000}
    # Refused before anything is read, or a server is asked.
    with pytest.raises(InvalidArgumentError, match="'LSH', but one of FLAT, IVF_FLAT"):
        push(Path("nowhere"), Address("milvus", "127.0.0.1", 9, "", "none"), index_type="LSH")


def test_a_push_goes_on_only_with_the_same_type_of_index(server, long_index, monkeypatch):
    address = server.address("types")
    with monkeypatch.context() as context:
        context.setattr(push_module, "tuned", interrupt)
        with pytest.raises(KeyboardInterrupt):
            push(long_index, address, LOOKUP_QUERY_ENCODER, overwrite=True)
    with pytest.raises(InvalidArgumentError, match="has an index of the type FLAT; choose"):
        push(long_index, address, LOOKUP_QUERY_ENCODER, index_type="HNSW")
    assert push(long_index, address, LOOKUP_QUERY_ENCODER).recall is None
    with monkeypatch.context() as context:
        context.setattr(push_module, "tuned", interrupt)
        with pytest.raises(KeyboardInterrupt):
            push(long_index, address, LOOKUP_QUERY_ENCODER, overwrite=True)
    again = {"index_type": "HNSW", "overwrite": True}
    assert push(long_index, address, LOOKUP_QUERY_ENCODER, **again).recall > 0.9


def test_a_facet_with_several_values_is_filtered_by_as_before(server, tmp_path):
    documents = [
        {"_id": f"{day}", "text": "text", "kind": "ab"[day % 2], "day": f"2020-01-0{day}"}
        for day in range(1, 7)
    ]
    out = tmp_path / "index"
    swiftlet.build(documents, out, encoder=LOOKUP_QUERY_ENCODER, facets=["kind", "day"])
    address = server.address("several")
    push(out, address, LOOKUP_QUERY_ENCODER, overwrite=True)

    def ids(**conditions) -> list[str]:
        return sorted(searcher.document_ids(conditions))

    with (
        swiftlet.write(address, encoder=LOOKUP_QUERY_ENCODER) as writer,
        swiftlet.open(address, encoder=LOOKUP_QUERY_ENCODER) as searcher,
    ):
        assert searcher.parts.filter_fields == FilterFields(("kind", "day"))
        assert ids(kind="a", day={"lt": "2020-01-04"}) == ["2"]
        writer.put([{"_id": "7", "text": "text", "kind": ["a", "c"], "day": "2020-01-07"}])
        assert searcher.refresh()
        several = {name_of("kind", b"s"): 2}
        assert searcher.parts.filter_fields == FilterFields((None, "day"), several)
        assert ids(kind="a") == ["2", "4", "6", "7"]
        assert ids(kind="c", day="2020-01-07") == ["7"]
        assert ids(kind={"none": ["a"]}) == ["1", "3", "5"]
        with pytest.raises(GroupingError, match="several values"):
            searcher.search_groups("text", 3, group_by="kind")


def test_a_facet_that_no_document_has_any_longer_is_not_pulled(server, tmp_path):
    documents = [
        {"_id": "a", "text": "b", "rare": 1, "kind": "x"},
        {"_id": "c", "text": "d", "kind": "y"},
    ]
    out, address = tmp_path / "index", server.address("rare")
    swiftlet.build(documents, out, encoder=LOOKUP_QUERY_ENCODER, facets=["rare", "kind"])
    push(out, address, LOOKUP_QUERY_ENCODER, overwrite=True)
    with swiftlet.write(address, encoder=LOOKUP_QUERY_ENCODER) as writer:
        writer.delete(["a"])
    pulled = pull(address, tmp_path / "pulled", LOOKUP_QUERY_ENCODER)
    assert pulled.details["facets"] == ["kind"]


def test_indexes_that_an_interruption_left_out_are_made(server, tmp_path, monkeypatch):
    if server.kind != "whole":
        pytest.skip("the small server drops no index")
    documents = [{"_id": f"{number}", "text": "text", "kind": number} for number in range(9)]
    out, address = tmp_path / "index", server.address("half")
    swiftlet.build(documents, out, encoder=LOOKUP_QUERY_ENCODER, facets=["kind"])

    def interrupted(*_: object) -> None:
        collection.call("release_collection")
        for column in ("facet_0_number", "facet_0_date"):
            collection.call("drop_index", index_name=column)
        raise KeyboardInterrupt

    collection = Collection(address)
    with monkeypatch.context() as patched:
        patched.setattr(push_module, "await_index", interrupted)
        with pytest.raises(KeyboardInterrupt):
            push(out, address, LOOKUP_QUERY_ENCODER)
    push(out, address, LOOKUP_QUERY_ENCODER)
    for column in ("facet_0", "facet_0_number", "facet_0_date"):
        assert collection.call("list_indexes", field_name=column)


def test_passages_of_one_hash_are_refused(server, long_index, monkeypatch):
    def colliding(document_id: str, number: int) -> int:
        return 7 if document_id in ("0001", "0002") else row_of(document_id, number)

    monkeypatch.setattr("swiftlet.indexing.milvus.rows.row_of", colliding)
    monkeypatch.setattr(push_module, "row_of", colliding)
    refused = r"the documents \['0001', '0002'\] have the same hash: give one another id"
    with pytest.raises(InvalidArgumentError, match=refused):
        push(long_index, server.address("hashes"), LOOKUP_QUERY_ENCODER)


def test_an_existing_collection_is_replaced_only_when_asked(server, small_index, small_collection):
    with pytest.raises(InvalidArgumentError, match=r"exists; choose another .* pass --overwrite"):
        push(small_index, small_collection)


def test_a_collection_of_somebody_else_is_left_alone(server, small_index):
    address = server.address("foreign")
    client = Collection(address).client
    if not client.has_collection("foreign"):
        schema = client.create_schema()
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("v", DataType.FLOAT_VECTOR, dim=8)
        client.create_collection("foreign", schema=schema)
    for overwrite in (False, True):
        with pytest.raises(InvalidArgumentError, match="was not made by Swiftlet"):
            push(small_index, address, overwrite=overwrite)
    with pytest.raises(InvalidArgumentError, match="was not made by Swiftlet"):
        swiftlet.open(address)
    assert client.has_collection("foreign")


def test_counts_of_words_are_written_over_no_other_collection(server, small_index):
    if server.kind == "whole":
        pytest.skip("the server has no words")
    address = server.address("counted")
    client = Collection(address).client
    schema = client.create_schema()
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("v", DataType.FLOAT_VECTOR, dim=8)
    client.create_collection("counted_words", schema=schema)
    refused = "counted_words, where the counts of words are kept, was not made by Swiftlet: choose"
    with pytest.raises(InvalidArgumentError, match=refused):
        push(small_index, address)
    assert not client.has_collection("counted")
    client.drop_collection("counted_words")
    assert not push(small_index, address).without_words


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


def test_a_wrong_token_is_refused(server, monkeypatch):
    if server.kind != "whole":
        pytest.skip("the small server asks for no token")
    for token in ("", "root:wrong"):
        monkeypatch.setenv("SWIFTLET_INDEX_TOKEN", token)
        with pytest.raises(InvalidArgumentError, match=r"token or its rights; .*INDEX_TOKEN"):
            swiftlet.open(f"{server.address('small')}")


def test_shards_are_pushed_without_an_index(server, tmp_path):
    documents = [
        Document(f"{number:02}", f"text number {number} " * 40, metadata={"parity": number % 2})
        for number in range(9)
    ]
    for number in (1, 2):
        out = tmp_path / "shards" / f"{number}"
        swiftlet.encode(documents, out, shard=(number, 2), encoder=LOOKUP_QUERY_ENCODER)
    shards = swiftlet.Shards([tmp_path / "shards"])
    address = server.address("shards")
    with pytest.raises(InvalidArgumentError, match="facet is 'kind', but no document has a value"):
        push(shards, address, LOOKUP_QUERY_ENCODER, facets=["kind"])
    with pytest.raises(InvalidArgumentError, match="language is 'klingon', but one of"):
        push(shards, address, LOOKUP_QUERY_ENCODER, language="klingon")
    assert not Collection(address).exists()
    pushed = push(shards, address, LOOKUP_QUERY_ENCODER, facets=["parity"], overwrite=True)
    index = tmp_path / "index"
    swiftlet.build(shards, index, encoder=LOOKUP_QUERY_ENCODER)
    with (
        swiftlet.open(address, encoder=LOOKUP_QUERY_ENCODER) as remote,
        swiftlet.open(index, encoder=LOOKUP_QUERY_ENCODER) as local,
    ):
        assert pushed.num_passages == local.num_passages == remote.num_passages
        found = remote.search("text number 5", 9)
        expected = local.search("text number 5", 9, mode=remote.modes[0])
        assert [hit.score for hit in found] == pytest.approx(
            [hit.score for hit in expected], abs=1e-5
        )
        assert remote.document("05") == documents[5]
        assert sorted(remote.document_ids({"parity": 1})) == ["01", "03", "05", "07"]


def test_a_server_that_is_not_there_is_named(small_index):
    address = Address("milvus", "127.0.0.1", 9, "", "small")
    began = time.monotonic()
    with pytest.raises(
        IndexServerError,
        match=r"^milvus://127\.0\.0\.1:9 does not answer: check that it",
    ):
        push(small_index, address)
    assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    "text",
    [
        "milvus://localhost:19530", "milvus://localhost/papers", "milvus://localhost:0x1/papers",
        "milvus://localhost:70000/papers", "milvus://localhost:1/2/3/4", "milvus:papers",
        "milvus://localhost:1/pa-pers", "milvus://user:secret@localhost:1/papers",
    ],
)  # fmt: skip
def test_an_address_that_is_none_is_refused(text):
    with pytest.raises(InvalidArgumentError, match="milvus://HOST:PORT/COLLECTION is expected"):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("milvus://localhost:19530/papers", "milvus://localhost:19530"),
        ("milvus+tls://db.example.org:443/mine/papers", "milvus+tls://db.example.org:443"),
        ("milvus://[::1]:19530/papers", "milvus://[::1]:19530"),
    ],
)
def test_an_address_is_shown_as_it_was_given(text, server):
    assert (f"{parse_address(text)}", parse_address(text).server) == (text, server)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (Document("d" * 2000, "text"), "has 2,000 bytes of id; on Milvus at most 1,024"),
        (Document("d", "text", title="t" * 70_000), "has 70,000 bytes of title"),
        (Document("d", "text" + "x" * 70_000), "has 70,000 bytes of text outside its passages"),
        (Document("d", "text", metadata={"n": "x" * 70_000}), "has 70,009 bytes of metadata"),
        (Document("d", "text", metadata={"n": list(range(99))}), "99 values of the field 'n'"),
    ],
)
def test_a_document_that_a_row_cannot_hold_is_named(document, message):
    with pytest.raises(InvalidArgumentError, match=message):
        list(rows_of(document, [(0, 4)], np.zeros((1, 2), np.float32)))


def test_rows_of_passages_differ():
    rows = {row_of(f"{document}", number) for document in range(300) for number in range(300)}
    assert len(rows) == 90_000
    assert min(rows) >= 0
    assert max(rows) < 2**63
