"""Servers of Milvus for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from loadtests.milvus_server import MilvusServer, hindrance
from swiftlet.indexing.milvus.push import Pushed, push
from swiftlet.retrieval.milvus.address import Address

# A machine has one whole server at most, so one process runs all of its tests.
WHOLE = pytest.param("whole", marks=[pytest.mark.soak, pytest.mark.xdist_group("milvus")])


@pytest.fixture(scope="session", params=["lite", WHOLE])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MilvusServer]:
    """A server of each kind."""
    if reason := hindrance(request.param):
        pytest.skip(reason)
    found = MilvusServer(request.param, tmp_path_factory.mktemp(request.param))
    found.start()
    yield found
    found.kill()


@pytest.fixture(scope="session")
def small_collection(server: MilvusServer, small_index: Path) -> Address:
    """The small index on the server; read only."""
    address = server.address("small")
    reason = "" if server.kind == "lite" else "the server is older than Milvus 2.4"
    assert push(small_index, address) == Pushed(89, None, reason)
    return address
