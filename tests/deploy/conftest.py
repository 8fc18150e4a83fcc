"""A service that has answered all kinds of requests, and the Prometheus that scrapes it.

Without the name of an image in IMAGE, what needs Docker is not collected, as in tests/deploy/image.
"""

import os
from collections.abc import Iterator

import httpx
import pytest

from tests.deploy.prometheus import Prometheus, scraping
from tests.service.conftest import Server, running

collect_ignore = [] if os.environ.get("IMAGE") else ["test_in_docker.py"]

ADMIN_KEY = "an-admin-key-of-the-tests"
SEARCHES = 20


@pytest.fixture(scope="session")
def service(small_index) -> Iterator[Server]:
    with running(small_index, admin_keys=ADMIN_KEY) as server:
        yield server


@pytest.fixture(scope="session")
def prometheus(service, tmp_path_factory) -> Iterator[Prometheus]:
    """It has scraped before the first request, and after the last."""
    folder = tmp_path_factory.mktemp("prometheus")
    with scraping(service.url.removeprefix("http://"), folder) as prometheus:
        ask_all_kinds_of_things(service)
        yield prometheus


def ask_all_kinds_of_things(service: Server) -> None:
    with service.client() as client:
        for number in range(SEARCHES):
            assert client.post("/search", json={"query": f"bread {number % 15}"}).is_success
        assert client.post("/search/batch", json={"queries": ["sea", "ice"]}).is_success
        assert client.post("/v1/embeddings", json={"model": "any", "input": "sea"}).is_success
        assert client.get("/documents/bread-1").is_success
        assert client.post("/search", json={"query": ""}).status_code == httpx.codes(422)
        key = {"Authorization": f"Bearer {ADMIN_KEY}"}
        assert client.post("/admin/reload", headers=key).is_success
