"""Servers of Milvus for the tests of this folder."""

import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadtests.milvus_server import PACKAGES, MilvusServer, hindrance
from swiftlet.indexing.milvus.push import push
from swiftlet.retrieval.milvus.address import Address

LOCK = Path(tempfile.gettempdir()) / "swiftlet-tests-of-milvus.lock"


@pytest.fixture(scope="session", params=[*PACKAGES])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MilvusServer]:
    """A server of each kind."""
    with LOCK.open("w") as lock:
        if request.param == "whole":  # a machine has one at most
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pytest.skip("another process of the tests has the server")
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
    assert push(small_index, address) == (89, 1.0)
    return address
