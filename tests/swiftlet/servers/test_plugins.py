"""A kind of server that another package brings, by an entry point."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import swiftlet
from swiftlet import address as address_module
from swiftlet.errors import InvalidArgumentError, MissingExtraError, RetrievalError
from swiftlet.servers.milvus import PLUGIN
from tests.command_line import swiftlet as swiftlet_command
from tests.swiftlet.servers import memory_server

ENTRY_POINTS = """\
[swiftlet.servers]
memory = tests.swiftlet.servers.memory_server:PLUGIN
broken = tests.swiftlet.servers.memory_server:NOTHING
"""


@pytest.fixture
def installed(tmp_path, monkeypatch) -> Iterator[Path]:
    """A folder of packages on the path with one whose entry points are ENTRY_POINTS."""
    folder = tmp_path / "packages"
    metadata = folder / "swiftlet_memory-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: swiftlet-memory\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(folder)
    address_module._entry_points.cache_clear()
    yield folder
    address_module._entry_points.cache_clear()


@pytest.fixture
def at(installed, small_index, monkeypatch) -> str:
    """The address of the small index."""
    monkeypatch.setitem(memory_server.MEMORY, "small", small_index)
    return "memory://here:1/small"


def test_an_index_is_searched_described_and_pulled(at, small_searcher, tmp_path):
    with swiftlet.open(at) as searcher:
        found = searcher.search("molten rock", 5)
        assert [hit.document_id for hit in found] == [
            hit.document_id for hit in small_searcher.search("molten rock", 5)
        ]
    manifest = swiftlet.pull(at, tmp_path / "pulled")
    assert manifest.details["num_passages"] == 89


def test_an_index_is_written(at, tmp_path, monkeypatch):
    index = tmp_path / "index"
    swiftlet.build([{"_id": "a", "text": "b"}], index)
    monkeypatch.setitem(memory_server.MEMORY, "written", index)
    with swiftlet.write("memory://here:1/written") as writer:
        writer.put([{"_id": "tea", "text": "Leaves are steeped."}])
    with swiftlet.open("memory://here:1/written") as searcher:
        assert searcher.search("steeped leaves", 1)[0].document_id == "tea"


def test_the_command_line_takes_the_address(at):
    assert "60 documents, 89 passages" in swiftlet_command("inspect", at).stdout


def test_a_server_that_takes_no_pushes_says_so(at, small_index):
    with pytest.raises(InvalidArgumentError, match=r"cannot be pushed to memory://here:1$"):
        swiftlet.push(small_index, at)


def test_an_address_of_another_form_is_refused_by_the_plugins_own_words(installed):
    refused = r"but memory://HOST:PORT/NAME is expected, with a name of small letters$"
    with pytest.raises(InvalidArgumentError, match=refused):
        swiftlet.open("memory://here:1/CAPITALS")


@pytest.mark.parametrize("scheme", ["redis", "postgres"])
def test_an_unknown_scheme_is_answered_by_the_addresses_that_are_known(scheme):
    refused = (
        rf"'{scheme}://…@h:1/a/b', but milvus://HOST:PORT/COLLECTION, or "
        r"postgresql://HOST:PORT/DATABASE/TABLE is expected; for another kind of server, install a "
        r"package with a plugin for its scheme; set SWIFTLET_INDEX_TOKEN"
    )
    with pytest.raises(InvalidArgumentError, match=refused):
        swiftlet.open(f"{scheme}://user:secret@h:1/a/b")


def test_a_broken_plugin_is_named(installed):
    with pytest.raises(RetrievalError, match=r"plugin tests.*:NOTHING cannot be loaded: .*NOTHING"):
        swiftlet.open("broken://here:1/small")


def test_a_client_that_is_not_installed_is_named_with_its_extra():
    with pytest.raises(MissingExtraError, match=r"'no_client' is not installed: .*\[milvus\]"):
        replace(PLUGIN, module="no_client").server()


def test_nothing_is_scanned_for_a_path(monkeypatch, small_index):
    def scanned() -> None:
        raise AssertionError

    monkeypatch.setattr(address_module, "_entry_points", scanned)
    with swiftlet.open(f"{small_index}") as searcher:
        assert searcher.num_documents == 60
