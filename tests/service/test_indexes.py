"""Several indexes in one service, each below its name."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import swiftlet
from service.opening import SharedEncoders
from service.settings import Settings
from swiftlet.encoders import DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from tests.polling import wait_until
from tests.service.conftest import Server, running, start

KEY = "0123456789abcdef"


def build(out: Path, **texts: str) -> None:
    rows = [{"_id": name, "text": text} for name, text in texts.items()]
    swiftlet.build(rows, out, overwrite=True)


@pytest.fixture(scope="module")
def folder(small_index, tmp_path_factory) -> Path:
    """Two indexes, which tests leave as they are, and what is none."""
    folder = tmp_path_factory.mktemp("indexes")
    shutil.copytree(small_index, folder / "first")
    build(folder / "second", tea="Tea is a drink.", tin="Tin is a metal.")
    (folder / "notes.txt").write_text("no index")
    (folder / ".hidden").symlink_to(folder / "second")
    return folder


@pytest.fixture(scope="module")
def server(small_index, folder) -> Iterator[Server]:
    """A service of an index, and of those below their names, of which two are open at once."""
    given = {"encoder": DEFAULT_QUERY_ENCODER, "indexes": folder, "open_indexes": 2}
    with running(small_index, search_keys=KEY, **given) as server:
        yield server


@pytest.fixture
def client(server):
    """A client with the key of searches."""
    with server.client() as client:
        client.headers["Authorization"] = f"Bearer {KEY}"
        yield client


def best(client, name: str, query: str) -> str:
    """The best document of an index."""
    answer = client.post(f"/indexes/{name}/search", json={"query": query})
    assert answer.status_code == 200, answer.text
    return answer.json()["hits"][0]["document_id"]


def test_each_index_answers_below_its_name_as_alone(client):
    assert client.get("/indexes").json() == {"indexes": ["first", "second"]}
    asked = {"query": "a hot drink"}
    alone, first = (
        client.post(f"{place}/search", json=asked).json()["hits"]
        for place in ("", "/indexes/first")
    )
    assert first == alone
    assert best(client, "second", "a hot drink") == "tea"
    assert client.get("/indexes/second/documents/tin").json()["text"] == "Tin is a metal."
    assert client.get("/indexes/second/info").json()["index"]["num_documents"] == 2
    batch = {"queries": ["a hot drink", "a metal"]}
    found = client.post("/indexes/second/search/batch", json=batch).json()["results"]
    assert [each["hits"][0]["document_id"] for each in found] == ["tea", "tin"]


def test_its_page_and_its_routes_are_below_its_name(client, server):
    before = server.value('swiftlet_requests_total{route="/search",status="200"}')
    page = client.get("/indexes/second", follow_redirects=True)
    assert page.url.path == "/indexes/second/"
    assert "<title>" in page.text
    assert page.headers["content-security-policy"]
    assert "/search" in client.get("/indexes/second/openapi.json").json()["paths"]
    assert best(client, "second", "metal") == "tin"
    after = server.value('swiftlet_requests_total{route="/search",status="200"}')
    assert after == before + 1


@pytest.mark.parametrize(
    "path", ["absent/search", "notes.txt/search", ".hidden/search", "..%2Findexes%2Ffirst/search"]
)
def test_what_is_no_index_of_the_folder_is_not_found(client, path):
    refused = client.post(f"/indexes/{path}", json={"query": "tea"})
    assert refused.status_code == 404
    assert refused.json()["type"] == "/docs#unknown-index"


def test_searches_below_a_name_need_the_key_and_take_no_writes(server):
    with server.client() as client:
        for path in ("/indexes", "/indexes/second/documents/tin"):
            assert client.get(path).status_code == 401
        assert client.post("/indexes/second/search", json={"query": "tea"}).status_code == 401
        put = client.put("/indexes/second/documents", json={"documents": []})
        assert put.status_code in {404, 405}


def test_what_is_published_changed_and_removed_is_seen(client, folder):
    place = folder / "third"
    try:
        build(place, old="Tea is a drink.")
        assert best(client, "third", "drink") == "old"
        build(place, new="Tea is a drink.", other="Tin is a metal.")
        wait_until(lambda: best(client, "third", "drink") == "new")
        with swiftlet.write(place) as writer:
            writer.delete(["new"])
        wait_until(lambda: best(client, "third", "drink") == "other")
    finally:
        shutil.rmtree(place)
    asked = {"query": "drink"}
    wait_until(lambda: client.post("/indexes/third/search", json=asked).status_code == 404)
    assert "third" not in client.get("/indexes").json()["indexes"]
    build(place, again="Tea is a drink.")
    wait_until(lambda: client.post("/indexes/third/search", json=asked).status_code == 200)
    shutil.rmtree(place)


def test_a_link_may_lead_to_another_index(client, folder):
    link = folder / "current"
    for target, expected in (("second", "tea"), ("first", "bees-1")):
        link.with_name(".new").symlink_to(target)
        link.with_name(".new").rename(link)
        wait_until(lambda wanted=expected: best(client, "current", "nectar or tea") == wanted)
    link.unlink()


def test_a_damaged_index_says_so_and_leaves_the_others_alone(client, folder):
    place = folder / "bad"
    shutil.copytree(folder / "second", place)
    (place / "manifest.json").write_text("{}")
    refused = client.post("/indexes/bad/search", json={"query": "tea"})
    assert refused.status_code == 503
    assert "the index bad cannot be opened" in refused.json()["detail"]
    assert best(client, "second", "metal") == "tin"
    shutil.rmtree(place)


def test_more_indexes_than_may_be_open_answer_in_turns(client, server, folder):
    names = [f"many-{number}" for number in range(5)]
    for name in names:
        shutil.copytree(folder / "second", folder / name)
    files = Path(f"/proc/{server.process.pid}/fd")
    for name in names[:2]:
        assert best(client, name, "metal") == "tin"
    before = len([*files.iterdir()])
    for name in 3 * names:
        assert best(client, name, "metal") == "tin"
    wait_until(lambda: len([*files.iterdir()]) <= before)
    for name in names:
        shutil.rmtree(folder / name)


def test_indexes_share_their_encoder(folder):
    encoders = SharedEncoders(Settings(indexes=folder))
    first, second = (encoders.of(folder / name) for name in ("first", "second"))
    assert first is second
    encoders = SharedEncoders(Settings(indexes=folder, encoder=LOOKUP_QUERY_ENCODER))
    found = encoders.of(folder / "first")
    assert found.manifest.details["name"] == LOOKUP_QUERY_ENCODER.name


def test_a_folder_alone_is_served_and_a_missing_one_is_refused(folder, tmp_path):
    server = start("", encoder="", indexes=folder)
    with server.client() as client:
        assert best(client, "second", "metal") == "tin"
        assert client.post("/search", json={"query": "tea"}).status_code == 503
    server.process.terminate()
    assert server.ended() == 0
    server = start("", encoder="", indexes=tmp_path / "absent")
    assert server.ended() != 0
    (told,) = server.log[-1:]
    assert "SWIFTLET_INDEXES is" in told
    assert "the path of a folder is expected" in told
