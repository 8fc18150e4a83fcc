"""What only Milvus has: facets in columns, hashes, limits, and counts of words of their own."""

from pathlib import Path

import numpy as np
import pytest

import swiftlet
from swiftlet.address import Address
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.errors import InvalidArgumentError
from swiftlet.search.searcher import Searcher
from swiftlet.servers.milvus import passages, schema
from swiftlet.servers.milvus import target as milvus_target
from swiftlet.servers.milvus.collection import Collection
from swiftlet.servers.milvus.rows import rows_of
from swiftlet.servers.milvus.schema import row_of
from swiftlet.servers.milvus.target import plan_index
from swiftlet.servers.push import push
from swiftlet.types import Document
from tests.swiftlet.servers.conftest import LOOKUP, MILVUS, make_foreign


@MILVUS
@pytest.mark.parametrize("condition", [None, {"length": {"lte": 8}}])
def test_a_search_finds_more_passages_than_the_server_gives_at_once(
    small_collection, small_searcher, monkeypatch, condition
):
    # As if the server gave no more than 20 of the 89 passages.
    monkeypatch.setattr(passages, "MOST_CANDIDATES", 20)
    with Searcher.open(small_collection, DEFAULT_ENCODER) as remote:
        for mode in remote.modes:
            found, expected = (
                each.search("molten rock", 60, mode=mode, filter=condition)
                for each in (remote, small_searcher)
            )
            assert [hit.document_id for hit in found] == [hit.document_id for hit in expected]


@MILVUS
def test_indexes_that_an_interruption_left_out_are_made(server, tmp_path, monkeypatch):
    if server.kind != "whole":
        pytest.skip("the small server drops no index")
    documents = [{"_id": f"{number}", "text": "text", "kind": number} for number in range(9)]
    out, address = tmp_path / "index", server.address("half")
    swiftlet.build(documents, out, **LOOKUP, facets=["kind"])

    def interrupted(*_: object) -> None:
        collection.call("release_collection")
        for column in ("facet_0_number", "facet_0_date"):
            collection.call("drop_index", index_name=column)
        raise KeyboardInterrupt

    collection = Collection(address)
    with monkeypatch.context() as patched:
        patched.setattr(milvus_target, "await_index", interrupted)
        with pytest.raises(KeyboardInterrupt):
            push(out, address, **LOOKUP)
    push(out, address, **LOOKUP)
    for column in ("facet_0", "facet_0_number", "facet_0_date"):
        assert collection.call("list_indexes", field_name=column)


@MILVUS
def test_passages_of_one_hash_are_refused(server, long_index, monkeypatch):
    def colliding(document_id: str, number: int) -> int:
        return 7 if document_id in ("0001", "0002") else row_of(document_id, number)

    monkeypatch.setattr(schema, "row_of", colliding)
    refused = r"the documents \['0001', '0002'\] have the same hash: give one another id"
    with pytest.raises(InvalidArgumentError, match=refused):
        push(long_index, server.address("hashes"), **LOOKUP)


@MILVUS
def test_counts_of_words_are_written_over_no_other_collection(server, small_index):
    if server.kind == "whole":
        pytest.skip("the server has no words")
    address = server.address("counted")
    client = Collection(make_foreign(server, "counted_words")).client
    refused = "counted_words, where the counts of words are kept, was not made by Swiftlet: choose"
    with pytest.raises(InvalidArgumentError, match=refused):
        push(small_index, address)
    assert not client.has_collection("counted")
    client.drop_collection("counted_words")
    assert not push(small_index, address).without_words


def test_the_type_of_an_index_depends_on_the_number_of_passages():
    assert [plan_index(size, None).index_type for size in (50_000, 50_001)] == ["FLAT", "IVF_SQ8"]
    assert plan_index(1_000_000, None).parameters == {"nlist": 1000}
    # Refused before anything is read, or a server is asked.
    with pytest.raises(InvalidArgumentError, match="'LSH', but one of FLAT, IVF_FLAT"):
        push(Path("nowhere"), Address("milvus", "127.0.0.1", 9, "", "none"), index_type="LSH")


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
