"""The service over a collection: its answers, its writes, and what it does without the server."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from pymilvus import MilvusClient

import swiftlet
from swiftlet.address import Address
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.search.searcher import Searcher
from swiftlet.servers.push import push
from tests.polling import wait_until
from tests.service.conftest import Server, running
from tests.swiftlet.servers.conftest import CLUSTER, drop

KEY = "a-write-key-of-the-tests"
HEADERS = {"Authorization": f"Bearer {KEY}"}


def put(url: str, document: dict[str, str]) -> None:
    body = {"documents": [document]}
    answer = httpx.put(f"{url}/documents", json=body, headers=HEADERS, timeout=60)
    assert answer.status_code == 200, answer.text


def ids_of(answer: httpx.Response) -> list[str]:
    return [hit["document_id"] for hit in answer.json()["hits"]]


def test_the_service_answers_as_over_the_index(server, small_collection, small_searcher):
    token = small_collection.token
    with running(small_collection, index_token=token) as service, service.client() as client:
        assert client.get("/health/ready").status_code == 200
        mode = "hybrid" if server.has_words else "dense"
        for query in ("molten rock", "moves of a king"):
            for fields in ({}, {"filter": {"length": {"gte": 3}}}, {"offset": 5}):
                answer = client.post("/search", json={"query": query, "top_k": 5, **fields})
                expected = small_searcher.search(query, 5, mode=mode, **fields).hits
                assert ids_of(answer) == [hit.document_id for hit in expected]
        batch = client.post("/search/batch", json={"queries": ["ice", "honey"], "top_k": 2})
        assert [len(each["hits"]) for each in batch.json()["results"]] == [2, 2]
        assert client.get("/documents/volcano-20").json()["text"].count("Molten") == 20
        assert client.get("/documents/none").status_code == 404
        assert client.get("/suggest?q=volcano").json() == {"suggestions": []}
        index = client.get("/info").json()["index"]
        assert (index["num_documents"], index["num_passages"]) == (60, 89)
        answer = client.post("/search", json={"query": "ice", "mode": "hybrid"})
        assert answer.status_code == (200 if mode == "hybrid" else 422)
        if mode == "dense":
            assert "the index has no words" in answer.json()["detail"]


def test_what_one_service_writes_is_found_by_another(pushed):
    address = pushed("written")
    settings = {"write_keys": KEY, "index_token": address.token}
    with running(address, **settings) as one, running(address, **settings) as other:
        tea = {"_id": "tea", "title": "Tea", "text": "Leaves are steeped in hot water. " * 30}
        put(one.url, tea)

        def found_by(url: str, document_id: str) -> bool:
            asked = {"query": "steeped leaves", "top_k": 3}
            return document_id in ids_of(httpx.post(f"{url}/search", json=asked, timeout=100))

        assert found_by(one.url, "tea")
        wait_until(lambda: found_by(other.url, "tea"))
        count = httpx.get(f"{one.url}/info", timeout=100).json()["index"]["num_passages"]
        put(other.url, {"_id": "tea", "text": "Leaves are steeped."})
        wait_until(
            lambda: (
                httpx.get(f"{one.url}/info", timeout=100).json()["index"]["num_passages"] < count
            )
        )
        assert (
            httpx.get(f"{one.url}/documents/tea", timeout=100).json()["text"]
            == "Leaves are steeped."
        )
        gone = httpx.delete(f"{one.url}/documents/tea", headers=HEADERS, timeout=60)
        assert gone.status_code == 200
        wait_until(lambda: not found_by(other.url, "tea"))
        assert (
            httpx.delete(f"{one.url}/documents/tea", headers=HEADERS, timeout=100).status_code
            == 404
        )


def test_without_its_collection_the_service_is_not_ready_and_says_so(server, pushed, tmp_path):
    smaller = tmp_path / "smaller"
    swiftlet.build([{"id": "ice", "text": "Water freezes to ice."}], smaller)
    address = pushed("dropped")
    with running(address, index_token=address.token) as service, service.client() as client:
        assert client.post("/search", json={"query": "ice"}).status_code == 200
        drop(server, address)
        statuses = set()

        def is_noticed() -> bool:
            statuses.add(client.post("/search", json={"query": "ice"}).status_code)
            return client.get("/health/ready").status_code == 503

        wait_until(is_noticed)
        assert statuses == {503}
        push(smaller, address)
        # It does not wait for the passages that the collection had before.
        wait_until(lambda: client.post("/search", json={"query": "ice"}).status_code == 200)


@contextmanager
def asked(service: Server, expected: list[str]) -> Iterator[Counter[int]]:
    """Ask a service all the time: its statuses. Each answer must be `expected`, or 503 or 504."""
    answers: Counter[int] = Counter()
    wrong: list[str] = []
    stopped = threading.Event()

    def ask() -> None:
        with service.client() as client:
            while not stopped.is_set():
                answer = client.post("/search", json={"query": "molten rock", "top_k": 5})
                answers[answer.status_code] += 1
                if answer.status_code not in (503, 504) and ids_of(answer) != expected:
                    wrong.append(answer.text)
                time.sleep(0.01)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: answers[200] > 20)
        yield answers
        before = answers[200]
        wait_until(lambda: answers[200] > before + 20)
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
    assert not wrong


def is_ready(service: Server) -> bool:
    return httpx.get(f"{service.url}/health/ready", timeout=100).status_code == 200


def test_searches_go_on_after_the_server_was_killed(server, pushed):
    address = pushed("killed")
    with Searcher.open(address, DEFAULT_ENCODER) as searcher:
        expected = [hit.document_id for hit in searcher.search("molten rock", 5)]
    with (
        running(address, index_token=address.token) as service,
        asked(service, expected) as answers,
    ):
        try:
            server.kill()
            wait_until(lambda: not is_ready(service))
            refused = httpx.post(
                f"{service.url}/search", json={"query": "molten rock"}, timeout=100
            )
            assert refused.status_code == 503
            assert "does not answer" in refused.json()["detail"]
            assert httpx.get(f"{service.url}/health/live", timeout=100).status_code == 200
        finally:
            server.start()  # also for the other tests
        wait_until(lambda: is_ready(service))
    assert answers[503] > 0


@pytest.mark.parametrize("server", [CLUSTER], indirect=True, scope="session")
def test_searches_go_on_without_half_of_the_nodes(server, small_index, small_searcher):
    expected = [hit.document_id for hit in small_searcher.search("molten rock", 5, mode="dense")]
    node = server.start_query_node()
    try:
        for number in range(4):
            address = server.address(f"half_{number}")
            push(small_index, address)
            if is_at_the_second_node(address):
                break
        else:
            pytest.fail("the second node has no collection")
        with (
            running(address, index_token=address.token) as service,
            asked(service, expected) as answers,
        ):
            node.kill()
            wait_until(lambda: not is_ready(service))
            assert answers[503] > 0
            wait_until(lambda: is_ready(service))
    finally:
        node.kill()
        node.wait()


def is_at_the_second_node(address: Address) -> bool:
    """Whether the node that started last gives the answers of a collection."""
    client = MilvusClient(f"http://{address.host}:{address.port}", token=address.token)
    (replica,) = client.describe_replica(address.collection)
    return {shard.shard_leader for shard in replica.shards} == {max(replica.group_nodes)}
