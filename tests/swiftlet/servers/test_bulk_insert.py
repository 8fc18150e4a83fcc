"""Pushes by bulk insert: the server reads Parquet files from a bucket, or from a folder."""

import re
from itertools import count

import pytest
from pyarrow.fs import FileSelector, FileSystem

import swiftlet
from swiftlet.address import TOKEN_VARIABLE
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.errors import IndexServerError, InvalidArgumentError
from swiftlet.servers.milvus import bulk_insert
from swiftlet.servers.milvus.bulk_insert import BulkInsert
from swiftlet.servers.push import push
from tests.command_line import refusal
from tests.command_line import swiftlet as swiftlet_command
from tests.milvus_server import MilvusServer
from tests.swiftlet.servers.conftest import (
    BUCKET,
    LITE,
    LOOKUP,
    OBJECTS,
    POSTGRESQL,
    WHOLE,
    Interrupted,
    Server,
    exists,
    in_bucket,
    interrupt,
)

READERS = pytest.mark.parametrize("server", [WHOLE, OBJECTS], indirect=True, scope="session")
WITH_OBJECTS = pytest.mark.parametrize("server", [OBJECTS], indirect=True, scope="session")
OTHERS = pytest.mark.parametrize("server", [LITE, POSTGRESQL], indirect=True, scope="session")
NUMBERS = count()


@pytest.fixture
def place(server: MilvusServer, tmp_path) -> str:
    """Where the server reads files."""
    settings = server.environment
    return in_bucket(settings, f"{BUCKET}/files-{next(NUMBERS)}") if settings else f"{tmp_path}"


@pytest.fixture
def small_files(monkeypatch) -> None:
    """Four files for the long index."""
    monkeypatch.setattr(bulk_insert, "_FILE_ROWS", 200)


def files_in(place: str) -> list[str]:
    files, path = FileSystem.from_uri(place if "://" in place else f"file://{place}")
    found = files.get_file_info(FileSelector(path, recursive=True))
    return [each.base_name for each in found if each.is_file]


def check(address) -> None:
    with swiftlet.open(address, **LOOKUP) as searcher:
        assert (searcher.num_documents, searcher.num_passages) == (700, 700)
        assert searcher.document("0699").text == "text number 699"
        assert searcher.search("number 699", 1)[0].document_id == "0699"


@READERS
def test_a_bulk_insert_gives_the_same_collection_as_requests(
    server, place, small_index, small_searcher
):
    address = server.address("in_bulk")
    assert push(small_index, address, bulk_insert=place, overwrite=True).num_passages == 89
    assert not files_in(place)
    with swiftlet.open(address, encoder=DEFAULT_ENCODER) as remote:
        for wanted in (None, {"topic": "chess"}, {"length": {"gte": 3}}):
            expected = small_searcher.search("moves of a king", 60, mode="dense", filter=wanted)
            found = remote.search("moves of a king", 60, mode="dense", filter=wanted)
            assert expected.hits
            assert [hit.document_id for hit in found] == [hit.document_id for hit in expected]
            assert [hit.metadata for hit in found] == [hit.metadata for hit in expected]
        document = remote.document("tides-1")
        assert document.text == small_searcher.document("tides-1").text


@READERS
@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("after", [0, 200, 400])
def test_an_interrupted_bulk_insert_goes_on(server, place, long_index, after):
    address = server.address(f"bulk_{after}")
    pushed = {"bulk_insert": place, **LOOKUP}
    with pytest.raises(KeyboardInterrupt, match="run the same command again"):
        push(long_index, address, progress=Interrupted("Pushing passages", after), **pushed)
    # Requests would write passages twice.
    with pytest.raises(InvalidArgumentError, match="a push with --bulk-insert has begun: run that"):
        push(long_index, address, **LOOKUP)
    progress = Interrupted("Pushing passages", 10**6)
    assert push(long_index, address, progress=progress, **pushed).num_passages == 700
    assert progress.done <= after
    assert not files_in(place)
    check(address)


@WITH_OBJECTS
@pytest.mark.usefixtures("small_files")
def test_files_that_the_server_has_are_not_inserted_again(server, place, long_index, monkeypatch):
    address, pushed = server.address("had"), {"bulk_insert": place, **LOOKUP}
    with monkeypatch.context() as context:
        context.setattr(BulkInsert, "_finished", interrupt)
        with pytest.raises(KeyboardInterrupt):
            push(long_index, address, **pushed)
    assert len(files_in(place)) == 3
    assert push(long_index, address, **pushed).num_passages == 700
    check(address)


@READERS
@pytest.mark.usefixtures("small_files")
def test_another_push_waits_for_files_of_the_one_that_it_replaces(
    server, place, long_index, small_index, monkeypatch
):
    address = server.address("replaced")
    with monkeypatch.context() as context:
        context.setattr(BulkInsert, "_finished", interrupt)
        with pytest.raises(KeyboardInterrupt):
            push(long_index, address, bulk_insert=place, **LOOKUP)
    assert push(small_index, address, overwrite=True).num_passages == 89
    other = server.address("next")
    assert push(long_index, other, bulk_insert=place, **LOOKUP).num_passages == 700
    check(other)


@WITH_OBJECTS
@pytest.mark.usefixtures("small_files")
def test_a_place_that_the_server_does_not_read_is_named(server, place, long_index):
    settings, address = server.environment, server.address("unread")
    other = in_bucket(settings, "other/files")
    files, _ = FileSystem.from_uri(f"{other}&allow_bucket_creation=true")
    files.create_dir("other")
    refused = (
        r"cannot insert files/\S+-000000000000.parquet: .*; see that it reads s3://other/files, and"
    )
    with pytest.raises(IndexServerError, match=refused):
        push(long_index, address, bulk_insert=other, **LOOKUP)
    assert "000000000000.parquet" not in "".join(files_in(other))
    assert push(long_index, address, bulk_insert=place, **LOOKUP).num_passages == 700
    check(address)


@OTHERS
def test_a_server_that_reads_no_files_is_named(server: Server, long_index, tmp_path):
    refused = "(Milvus Lite|PostgreSQL) reads no files: leave out --bulk-insert"
    with pytest.raises(InvalidArgumentError, match=refused):
        push(long_index, server.address("none"), bulk_insert=f"{tmp_path}", **LOOKUP)


@READERS
@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("/none/files", r"to /none/files \(.*No such file"),
        ("s3:/b/a", "bulk_insert is 's3:/b/a', but a path on this machine is expected"),
        ("a\0b", r"null byte"),
        ("minio://me:secret@b/a", r"to minio://b/a \(Unrecognized"),
        ("s3://me:a/secret@b/a", r"to s3://b/a \("),
        (
            "s3://me:secret@b/a?scheme=http&endpoint_override=127.0.0.1:9",
            r"to s3://b/a \(.*connect",
        ),
    ],
)
def test_a_place_that_cannot_be_written_is_named(server, small_index, bad, problem, monkeypatch):
    address = server.address("unwritten")
    monkeypatch.setenv(TOKEN_VARIABLE, address.token)
    sentence = refusal(swiftlet_command("push", small_index, "--to", address, "--bulk-insert", bad))
    assert re.search(problem, sentence)
    assert "secret" not in sentence
    assert not exists(address)
