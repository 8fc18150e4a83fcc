"""Documents are put and deleted while the service answers searches."""

import asyncio
import os
import re
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import psutil
import pytest
from prometheus_client import CollectorRegistry

from service.live import writing as writing_module
from service.live.state import Service, ServiceState
from service.live.writing import Writing
from service.wire.problems import NotReadyError, WriteRefusedError
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.errors import ArtefactError, CollectionError, RetrievalError
from swiftlet.index.building.build import BuildSettings, build_index
from swiftlet.manifest import read_manifest
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document
from tests.polling import wait_until
from tests.service.conftest import Server, running, start

pytest_plugins = ["tests.small_disk"]

KEY = "the-write-key-of-the-tests"
BEARER = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    documents = [
        Document("tea", "Leaves are steeped in hot water.", metadata={"kind": "drink"}),
        Document("ski", "One slides down slopes on boards.", metadata={"kind": "sport", "year": 7}),
    ]
    out = tmp_path_factory.mktemp("built") / "index"
    build_index(documents, LOOKUP_QUERY_ENCODER, out, BuildSettings(facets=("kind",)))
    return out


@pytest.fixture
def index(built, tmp_path_factory) -> Path:
    return shutil.copytree(built, tmp_path_factory.mktemp("index") / "index")


@pytest.fixture(scope="module")
def server_of_all(built, tmp_path_factory) -> Iterator[Server]:
    link = tmp_path_factory.mktemp("served") / "index"
    link.symlink_to(built)
    with running(link, write_keys=KEY, admin_keys=KEY, threads=2) as started:
        yield started


@pytest.fixture
def server(server_of_all, index) -> Server:
    """The same server for all tests, with an index that only this one changes."""
    link = Path(f"{server_of_all.settings['index']}")
    lead_to(link, index)
    assert server_of_all.client().post("/admin/reload", headers=BEARER).is_success
    return server_of_all


def lead_to(link: Path, index: Path) -> None:
    (link.parent / "next").symlink_to(index)
    (link.parent / "next").replace(link)


def put(server: Server, *documents: dict[str, Any]) -> httpx.Response:
    return server.client().put("/documents", json={"documents": documents}, headers=BEARER)


def found(server: Server, query: str, **fields: Any) -> list[str]:
    answer = server.client().post("/search", json={"query": query, **fields})
    assert answer.status_code == 200, answer.text
    return [hit["document_id"] for hit in answer.json()["hits"]]


def delete(server: Server, **body: Any) -> httpx.Response:
    return server.client().post("/documents/delete", json=body, headers=BEARER)


def test_a_document_is_found_as_soon_as_it_is_put_and_lost_as_soon_as_it_is_deleted(server):
    answer = put(
        server,
        {
            "_id": "a/b c",
            "title": "Coffee",
            "text": "Roasted beans.",
            "metadata": {"kind": "drink"},
        },
        {"_id": "tax", "text": "Money for a state."},
    )
    assert (answer.status_code, answer.json()["documents"]) == (200, 2)
    assert found(server, "roasted coffee", top_k=1) == ["a/b c"]
    assert sorted(found(server, "coffee", filter={"kind": "drink"})) == ["a/b c", "tea"]
    assert server.client().get("/documents/a/b c").json()["title"] == "Coffee"
    assert put(server, {"_id": "a/b c", "text": "Snow on mountains."}).status_code == 200
    assert len(found(server, "coffee", top_k=10)) == 4
    assert found(server, "coffee", filter={"kind": "drink"}) == ["tea"]
    assert found(server, "coffee", mode="lexical") == []
    answer = server.client().delete("/documents/a/b c", headers=BEARER)
    assert (answer.status_code, answer.json()["documents"]) == (200, 1)
    assert server.client().get("/documents/a/b c").status_code == 404
    assert server.client().delete("/documents/a/b c", headers=BEARER).status_code == 404
    assert delete(server, ids=["tax", "?"]).json()["unknown"] == ["?"]
    assert sorted(found(server, "anything")) == ["ski", "tea"]
    assert server.client().get("/info").json()["index"]["num_documents"] == 2


def test_examples_are_the_titles_of_documents_that_are_there(server):
    def examples() -> list[str]:
        titles: list[str] = server.client().get("/info").json()["index"]["examples"]
        return titles

    assert examples() == []
    titles = ["Tea", " ", "T" * 81, "Rain"]
    documents = [
        {"_id": name, "title": title, "text": "Words."}
        for name, title in zip("abcd", titles, strict=True)
    ]
    put(server, {"_id": "tea", "title": "Old", "text": "Leaves."}, *documents)
    assert examples() == ["Old", "Tea", "Rain"]
    delete(server, ids=["a"])
    put(server, {"_id": "tea", "title": "New", "text": "Leaves."})
    assert examples() == ["New", "Rain"]


def test_titles_are_suggested_of_the_index_as_it_is_at_the_request(server):
    def suggested(query: str) -> list[str]:
        answer = server.client().get("/suggest", params={"q": query})
        assert answer.status_code == 200, answer.text
        return [suggestion["title"] for suggestion in answer.json()["suggestions"]]

    put(server, {"_id": "tea", "title": "Tea leaves", "text": "A text."})
    assert suggested("coffee") == []
    for title, other in (("Coffee beans", "roasted"), ("Roasted beans", "coffee")):
        put(server, {"_id": "new", "title": title, "text": "A text."})
        assert suggested("beans") == [title]
        assert suggested(other) == []
    assert delete(server, ids=["new"]).is_success
    assert suggested("beans") == []
    assert suggested("tea") == ["Tea leaves"]


def test_documents_are_deleted_by_a_filter(server):
    put(server, *({"_id": f"{n}", "text": f"Text {n}.", "metadata": {"n": n}} for n in range(20)))
    assert delete(server, filter={"n": {"lt": 15}}).json()["documents"] == 15
    assert sorted(found(server, "text", filter={"n": {"exists": True}})) == [
        "15", "16", "17", "18", "19",
    ]  # fmt: skip
    assert delete(server, filter={"kind": "drink"}).json()["documents"] == 1
    assert "tea" not in found(server, "hot water")
    answer = delete(server, filter={"nothing": 1})
    assert answer.status_code == 422
    assert "the filter names 'nothing'" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"documents": [{"_id": "a"}]}, r'^documents\[1\] \(\'a\'\): there is no "text"'),
        ({"documents": [{"_id": "a", "text": " "}]}, r"^documents\[1\]: .* 'a' has neither text"),
        ({"documents": [{"_id": "a", "text": "b"}, {"_id": "a", "text": "c"}]}, "'a'"),
        ({"documents": [{"_id": "a", "text": 3}]}, '"text" is a number'),
        ({"documents": ["a"]}, r'^documents\[1\] is a text; an object with "_id", "text" and'),
        ({"documents": []}, "a list of 1 to 1000 objects"),
        ({}, "documents is missing"),
    ],
)
def test_bad_documents_are_refused_in_one_sentence_and_nothing_is_written(server, body, sentence):
    good = {"_id": "good", "text": "A good document."}
    if 0 < len(body.get("documents", [])) < 1000:
        body = {"documents": [good, *body["documents"]]}
    answer = server.client().put("/documents", json=body, headers=BEARER)
    assert answer.status_code == 422
    assert re.search(sentence, answer.json()["detail"]), answer.json()["detail"]
    assert len(answer.json()["detail"]) < 300
    assert answer.json()["field"] == re.split(r"[ :]", answer.json()["detail"])[0]
    assert "--skip" not in answer.json()["detail"]
    assert sorted(found(server, "good")) == ["ski", "tea"]


def test_too_many_documents_are_refused(server):
    answer = put(server, *[{"_id": "a", "text": "b"}] * 1001)
    assert answer.status_code == 413
    assert "a list of 1 to 1000 objects" in answer.json()["detail"]


def test_a_short_document_does_not_wait_until_a_long_one_is_encoded(index, monkeypatch):
    monkeypatch.setattr(writing_module, "_TEXTS_AT_ONCE", 1)
    ended = []

    async def write(writing: Writing) -> None:
        async def put_one(name: str, num_words: int) -> None:
            await writing.put([{"_id": name, "text": "word " * num_words}])
            ended.append(name)

        await asyncio.gather(put_one("long", 2_000), put_one("short", 1))
        with pytest.raises(CollectionError, match="row 1: the text has more than 20 passages"):
            await put_one("too long", 20_000)

    with closing(Searcher.open(index, LOOKUP_QUERY_ENCODER)) as searcher:
        writing = Writing(
            ServiceState(searcher), CollectorRegistry(), index=index, document_encoder=None,
            threads=1, most_passages=20,
        )  # fmt: skip
        with closing(writing):
            asyncio.run(write(writing))
        assert ended == ["short", "long"]
        assert searcher.document("long").text == "word " * 2_000
        assert searcher.num_documents == 4


def test_where_swiftlet_up_follows_a_folder_a_write_is_told_to_change_its_files(index):
    with closing(Searcher.open(index, LOOKUP_QUERY_ENCODER)) as searcher:
        state = ServiceState(searcher)
        state.is_followed = True
        writing = Writing(
            state, CollectorRegistry(), index=index, document_encoder=None, threads=1,
            most_passages=20,
        )  # fmt: skip
        with closing(writing):
            for write in (writing.put([{"_id": "a", "text": "A."}]), writing.delete(["a"])):
                with pytest.raises(WriteRefusedError, match="change the files of the folder"):
                    asyncio.run(write)


def test_where_the_index_of_swiftlet_up_is_gone_the_answer_says_to_start_it_again(index):
    def refreshed(searcher: Searcher) -> str:
        with suppress(RetrievalError):
            searcher.refresh()
        return searcher.problem

    with closing(Searcher.open(index, LOOKUP_QUERY_ENCODER)) as searcher:
        state = ServiceState(searcher)
        state.is_followed = True
        service = Service(state, None, None, None, None)
        service.check()
        shutil.rmtree(index)
        wait_until(lambda: refreshed(searcher))
        with pytest.raises(NotReadyError, match="stop swiftlet up, and start it again"):
            service.check()


def test_metadata_of_any_depth_is_kept(server):
    nested: dict[str, Any] = {"leaf": "deep"}
    for _ in range(10):
        nested = {"inner": nested}
    assert put(server, {"_id": "nested", "text": "Nested.", "metadata": nested}).is_success
    path = "inner." * 10 + "leaf"
    assert found(server, "nested", filter={path: "deep"}) == ["nested"]
    put(server, {"_id": "other", "text": "Other.", "metadata": {"kind": 3, "year": "seven"}})
    assert found(server, "other", filter={"kind": 3}) == ["other"]
    assert found(server, "other", filter={"year": 7}) == ["ski"]


@pytest.mark.check
def test_writes_need_a_key_of_their_own(index):
    body = {"documents": [{"_id": "a", "text": "b"}]}
    with running(index, write_keys=KEY) as server:
        assert server.client().put("/documents", json=body).status_code == 401
        wrong = {"Authorization": "Bearer another-key-of-16-chars"}
        for answer in (
            server.client().put("/documents", json=body, headers=wrong),
            server.client().post("/documents/delete", json={"ids": ["a"]}, headers=wrong),
            server.client().delete("/documents/tea", headers=wrong),
        ):
            assert answer.status_code == 403
    with running(index) as server:
        answer = server.client().put("/documents", json=body, headers=BEARER)
        assert answer.status_code == 403
        assert "SWIFTLET_WRITE_KEYS is not set" in answer.json()["detail"]


@pytest.mark.check
def test_a_service_with_another_document_encoder_refuses_writes_by_name(index):
    with running(index, write_keys=KEY, document_encoder=DEFAULT_QUERY_ENCODER) as server:
        answer = put(server, {"_id": "a", "text": "b"})
        assert answer.status_code == 409
        assert (
            "the index was built by the encoder 'all-MiniLM-L6-v2-query-lookup'"
            in answer.json()["detail"]
        )
        assert found(server, "tea")
    with running(index, write_keys=KEY, document_encoder=index.parent / "none") as server:
        answer = put(server, {"_id": "a", "text": "b"})
        assert answer.status_code == 409
        assert "none is not a directory" in answer.json()["detail"]


@pytest.mark.check
def test_a_full_disk_is_told_from_one_that_cannot_be_written(index, small_disk):
    subprocess.run(["mount", "-o", "remount,size=2m", str(small_disk)], check=True)
    copy = shutil.copytree(index, small_disk / "index")
    with running(copy, write_keys=KEY) as server:
        long = {"text": "b", "metadata": {"long": "x" * 1_000_000}}
        answer = put(server, *({"_id": document_id, **long} for document_id in "abc"))
        assert (answer.status_code, answer.json()["type"]) == (507, "/docs#storage-full")
        assert "nothing was written: free space" in answer.json()["detail"]
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with running(copy, write_keys=KEY) as server:
        answer = put(server, {"_id": "a", "text": "b"})
        assert (answer.status_code, answer.json()["type"]) == (409, "/docs#write-refused")
        assert "Read-only file system" in answer.json()["detail"]
        assert len(found(server, "anything")) == 2


def test_a_write_that_fails_at_its_end_is_not_said_to_have_left_nothing(index, server):
    assert put(server, {"_id": "one", "text": "One."}).is_success
    at_most = (index / "changes.sqlite-wal").stat().st_size + 2_000
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (at_most, resource.RLIM_INFINITY))
    try:
        answer = put(server, {"_id": "two", "text": "Two."})
    finally:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    assert (answer.status_code, answer.json()["type"]) == (507, "/docs#storage-full")
    assert "it is not known whether the changes are written" in answer.json()["detail"]
    assert "nothing was written" not in answer.json()["detail"]
    assert put(server, {"_id": "two", "text": "Two."}).json()["change"] == 2
    assert {"one", "two"} <= {*found(server, "two")}


def test_writes_without_descriptors_are_refused_and_work_when_there_are_some(server):
    process = server.process.pid
    before = resource.prlimit(process, resource.RLIMIT_NOFILE)
    with server.client() as client:
        for change, name in enumerate(["one", "two"], start=1):
            body = {"documents": [{"_id": name, "text": "Text."}]}
            client.get("/health/live")  # the connection stays open
            resource.prlimit(process, resource.RLIMIT_NOFILE, (3, before[1]))
            try:
                answers = [
                    client.put("/documents", json=body, headers=BEARER),
                    client.delete("/documents/nobody", headers=BEARER),
                ]
            finally:
                resource.prlimit(process, resource.RLIMIT_NOFILE, before)
            assert {each.status_code for each in answers} <= {200, 404, 409, 503, 507}
            if change == 1:  # without the files of the writer
                assert "Too many open files" in answers[0].json()["detail"]
            again = client.put("/documents", json=body, headers=BEARER)
            assert again.is_success, again.text
            assert again.json()["change"] >= change
            assert name in found(server, "text")


def test_a_write_that_searches_cannot_see_is_said_to_be_written(index, server):
    count = partial(server.value, 'swiftlet_documents_written_total{change="put"}')
    assert put(server, {"_id": "one", "text": "One."}).is_success
    before, manifest = count(), index / "manifest.json"
    whole = manifest.read_bytes()
    manifest.write_bytes(whole + b" ")
    answer = put(server, {"_id": "two", "text": "Two."})
    assert (answer.status_code, answer.json()["type"]) == (503, "/docs#not-ready")
    detail = answer.json()["detail"]
    assert detail.startswith("all is written, up to the change 2, but searches do not see it yet: ")
    assert count() == before + 1
    manifest.write_bytes(whole)
    wait_until(lambda: "two" in found(server, "two"))


@pytest.mark.check
def test_connections_leave_files_for_writes_and_a_reload(index):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (120, limits[1]))
        try:
            keys = {"write_keys": KEY, "admin_keys": KEY}
            server = stack.enter_context(running(index, threads=2, **keys))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        connections = [stack.enter_context(server.connect()) for _ in range(120)]
        with suppress(ConnectionResetError):
            assert connections[-1].recv(1) == b""  # there are too many of them
        for connection in connections[:3]:
            connection.close()
        client = stack.enter_context(server.client())

        def is_answered() -> bool:
            with suppress(httpx.TransportError):
                return client.get("/health/live").is_success
            return False

        wait_until(is_answered)
        body = {"documents": [{"_id": "a", "text": "b"}]}
        assert client.put("/documents", json=body, headers=BEARER).is_success
        assert client.delete("/documents/a", headers=BEARER).is_success
        assert client.post("/admin/reload", headers=BEARER).is_success


@pytest.mark.check
def test_what_was_acknowledged_is_there_after_a_kill(index):
    server = start(index, write_keys=KEY)
    for number in range(5):
        assert put(server, {"_id": f"{number}", "text": f"Text {number}."}).is_success
    assert server.client().delete("/documents/tea", headers=BEARER).is_success
    server.process.kill()
    server.ended()
    with running(index, write_keys=KEY) as server:
        assert sorted(found(server, "text")) == ["0", "1", "2", "3", "4", "ski"]
        assert put(server, {"_id": "5", "text": "Text 5."}).is_success


@pytest.mark.check
def test_a_merge_ends_with_a_service_that_is_killed(tmp_path):
    # So many values take the merge a second.
    documents = [Document("many", "Text.", metadata={"n": [*range(200_000)]}), Document("a", "b")]
    build_index(documents, DEFAULT_ENCODER, tmp_path / "index")
    server = start(tmp_path / "index", write_keys=KEY)
    service = Path(f"/proc/{server.process.pid}")

    def children() -> set[int]:
        return {
            int(process)
            for listed in service.glob("task/*/children")
            for process in listed.read_text().split()
            if b"spawn_main" in Path(f"/proc/{process}/cmdline").read_bytes()
        }

    before = children()
    server.client().delete("/documents/a", headers=BEARER)
    wait_until(lambda: any(tmp_path.glob(".index.partial/artefact/*")))
    (merge,) = children() - before
    os.kill(merge, signal.SIGSTOP)  # else it would end by itself
    server.process.kill()
    server.ended()
    try:
        wait_until(lambda: not Path(f"/proc/{merge}").exists())
    finally:
        with suppress(ProcessLookupError):
            os.kill(merge, signal.SIGKILL)


@pytest.mark.check
def test_another_service_follows_and_cannot_write(index, server):
    with running(index, write_keys=KEY) as other:
        put(server, {"_id": "new", "text": "Something new."})
        wait_until(lambda: "new" in found(other, "something new"))
        answer = put(other, {"_id": "mine", "text": "Mine."})
        assert answer.status_code == 409
        assert "another process is writing" in answer.json()["detail"]
        assert answer.json()["detail"].endswith("wait until it ends, or stop it")
        merge(server)
        put(server, {"_id": "newer", "text": "Something newer."})
        wait_until(lambda: "newer" in found(other, "something newer"))


def test_a_replaced_index_is_followed_logged_and_counted(index, server):
    replaced = partial(server.value, "swiftlet_index_replaced_total")
    before = replaced()
    build_index([Document("oak", "A tree.")], LOOKUP_QUERY_ENCODER, index, overwrite=True)
    wait_until(lambda: found(server, "tree") == ["oak"])
    generation = server.client().get("/info").json()["index"]["fingerprint"]
    wait_until(lambda: f"replaced: index {generation} is searched\n" in "".join(server.log))
    put(server, {"_id": "elm", "text": "Another tree."})
    assert replaced() == before + 1


@pytest.mark.check
def test_changes_are_merged_while_searches_go_on(index, server):
    before = read_manifest(index).fingerprint
    ended = Event()

    def search() -> int:
        count = 0
        with server.client() as client:
            while not ended.wait(0.02):  # else searches would take all of the processor
                answer = client.post("/search", json={"query": "hot water", "top_k": 1})
                assert [hit["document_id"] for hit in answer.json()["hits"]] == ["tea"]
                count += 1
        return count

    with ThreadPoolExecutor(1) as pool:
        searches = pool.submit(search)
        try:
            merge(server)
        finally:
            ended.set()
        assert searches.result() > 1
    assert read_manifest(index).fingerprint != before
    assert server.client().get("/info").json()["index"]["fingerprint"] != before[:16]
    assert len(found(server, "text", top_k=1000)) == 1000
    assert server.value('swiftlet_merge_seconds_count{outcome="failed"}') == 0
    assert not list(index.parent.glob(".index.partial/*artefact*"))


def merge(server: Server) -> None:
    """Put so many documents that the service merges, and wait for the merge."""
    merges = partial(server.value, 'swiftlet_merge_seconds_count{outcome="merged"}')
    before = merges()
    for first in range(0, 1400, 700):
        texts = [{"_id": f"{n}", "text": f"Text {n}."} for n in range(first, first + 700)]
        assert put(server, *texts).is_success
    wait_until(lambda: server.value("swiftlet_segments") == 1 and merges() > before)


@pytest.mark.check
def test_writes_go_where_searches_look_when_the_directory_is_replaced_or_a_link_moves(
    index, tmp_path
):
    copy = shutil.copytree(index, tmp_path / "copy")
    (tmp_path / "link").symlink_to(index)
    keys = {"write_keys": KEY, "admin_keys": KEY}
    with running(tmp_path / "link", **keys) as server:
        put(server, {"_id": "one", "text": "One."})
        lead_to(tmp_path / "link", copy)
        assert put(server, {"_id": "two", "text": "Two."}).is_success
        assert {"one", "two"} <= set(found(server, "two"))
        assert server.client().post("/admin/reload", headers=BEARER).is_success
        assert "two" not in found(server, "two")
        assert put(server, {"_id": "three", "text": "Three."}).is_success
        assert "three" in found(server, "three")
        # An index that is restored has the same base, but is another directory.
        restored = shutil.copytree(index, tmp_path / "restored")
        copy.rename(tmp_path / "broken")
        restored.rename(copy)
        assert put(server, {"_id": "four", "text": "Four."}).is_success
        assert {"one", "two", "four"} <= set(found(server, "four"))
        assert "three" not in found(server, "three")
        copy.rename(tmp_path / "gone")
        answer = put(server, {"_id": "five", "text": "Five."})
        assert answer.status_code == 409
        assert "is not a directory" in answer.json()["detail"]


def test_a_build_through_a_link_does_not_get_past_the_lock(index, server, tmp_path):
    put(server, {"_id": "one", "text": "One."})
    (tmp_path / "link").symlink_to(index)
    with pytest.raises(ArtefactError, match="another process is writing"):
        build_index([Document("a", "b")], DEFAULT_ENCODER, tmp_path / "link", overwrite=True)
    assert "one" in found(server, "one")


def test_all_documents_are_not_deleted_by_mistake(server):
    for all_pass in ({}, {"or": [{}, {"kind": "drink"}]}, {"not": {"kind": {"prefix": "z"}}}):
        answer = delete(server, filter=all_pass)
        assert answer.status_code == 422
        assert "all documents (2) pass the filter; to delete them all" in answer.json()["detail"]
    for body in ({}, {"ids": ["tea"], "filter": {"kind": "sport"}}):
        assert delete(server, **body).json()["detail"].endswith("give either ids or filter")
    assert delete(server, filter=None).status_code == delete(server, ids=[]).status_code == 422
    answer = delete(server, ids=["a" * 3000])
    assert answer.status_code == 422
    assert len(found(server, "anything")) == 2


def test_an_id_that_is_none_is_named_by_its_position(server):
    for wrong, is_what in (("a" * 3000, "has 3000 characters"), (5, "is 5"), (None, "is null")):
        answer = delete(server, ids=["tea", wrong])
        assert answer.status_code == 422
        sentence = f"ids[1] {is_what}; an id of up to 2048 characters is expected"
        assert (answer.json()["field"], answer.json()["detail"]) == ("ids[1]", sentence)


def test_documents_are_put_after_the_process_that_encodes_was_killed(server):
    assert put(server, {"_id": "one", "text": "One."}).is_success
    (encoder,) = encoders(server)
    encoder.kill()
    # It is waited for when its last thread has ended, which may not be its first one.
    threads = Path(f"/proc/{encoder.pid}/task")
    wait_until(lambda: encoder.status() == psutil.STATUS_ZOMBIE and len([*threads.iterdir()]) == 1)
    answer = put(server, {"_id": "two", "text": "Two."})
    assert answer.is_success, answer.text
    assert {"one", "two"} <= set(found(server, "two"))


def test_more_writes_than_may_wait_are_answered_429(server):
    assert put(server, {"_id": "one", "text": "One."}).is_success
    (encoder,) = encoders(server)
    encoder.suspend()  # so that no write ends
    with ThreadPoolExecutor(17) as pool:
        puts = [pool.submit(put, server, {"_id": "one", "text": "One."}) for _ in range(17)]
        refused = next(as_completed(puts)).result()
        unparsed = server.client().put("/documents", content=b"[" * 70_000, headers=BEARER)
        encoder.resume()
    assert unparsed.status_code == 429
    assert refused.status_code == 429
    assert refused.json()["detail"] == "16 writes are waiting; at most 16 may wait"
    assert [each.result().status_code for each in puts].count(200) == 16


@pytest.mark.check
def test_a_put_that_is_being_encoded_does_not_hold_up_a_stop(index):
    server = start(index, write_keys=KEY, drain_timeout_seconds=1)
    assert put(server, {"_id": "one", "text": "One."}).is_success
    with ThreadPoolExecutor(1) as pool:
        long = pool.submit(put, server, {"_id": "long", "text": "word " * 400_000})
        (encoder,) = encoders(server)
        before = encoder.cpu_times().user
        wait_until(lambda: encoder.cpu_times().user > before)
        encoder.suspend()  # so that no machine is fast enough to answer it
        server.process.terminate()
        assert server.ended() == 0, server.log
        with suppress(httpx.HTTPError):
            assert long.result().status_code == 503  # and not 200, after the encoding


def encoders(server: Server) -> list[psutil.Process]:
    """The process that encodes, if it has started."""
    children = psutil.Process(server.process.pid).children()
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]
