"""Valid and broken indexes are published while a service runs."""

import logging
import shutil
import signal
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from service.live.reload import Reloader, ReplacedError
from service.live.state import ServiceState
from service.opening import open_searcher
from service.settings import Settings
from service.wire.keys import ApiKey
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.index.building.build import build_index
from swiftlet.index.query_encoder import put_query_encoder
from swiftlet.manifest import read_manifest, write_manifest
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document

KEY = "the-key-of-the-tests"
BEARER = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def other_index(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("other") / "index"
    texts = {"tea": "Leaves in hot water.", "ski": "Down a slope on boards.", "tax": "For a state."}
    documents = [Document(name, text, name) for name, text in texts.items()]
    build_index(documents, DEFAULT_ENCODER, out)
    return out


def kill_the_build(index: Path) -> None:
    (index / "manifest.json").unlink()


def flip_a_byte(index: Path) -> None:
    content = bytearray((index / "passage_to_document.npy").read_bytes())
    content[-1] ^= 1
    (index / "passage_to_document.npy").write_bytes(content)


def move_to_another_space(index: Path) -> None:
    write_manifest(index, replace(read_manifest(index), embedding_space="f" * 64, dim=128))


BROKEN = {
    kill_the_build: ("bad_manifest", "has no manifest.json"),
    flip_a_byte: ("corrupt_file", "passage_to_document.npy has been altered"),
    move_to_another_space: ("other_embedding_space", "numbers, the index has 128 "),
    shutil.rmtree: ("bad_manifest", "is not a directory"),
}


class Versions:
    """Version directories, and the link `current` to one of them."""

    def __init__(self, folder: Path, first: Path) -> None:
        self.folder = folder
        self.current = folder / "current"
        self.publish(first)

    def publish(self, index: Path, breakage: Callable[[Path], object] | None = None) -> Path:
        version = self.folder / f"version-{len(list(self.folder.iterdir()))}"
        shutil.copytree(index, version)
        if breakage is not None:
            breakage(version)
        link = self.folder / "next"
        link.symlink_to(version.name)
        link.rename(self.current)
        return version

    def settings(self) -> Settings:
        return Settings(index=self.current, encoder=DEFAULT_ENCODER, threads=2)


@pytest.fixture
def versions(tmp_path, small_index) -> Versions:
    return Versions(tmp_path, small_index)


@pytest.fixture
def application(make_application, versions) -> Any:
    load = partial(open_searcher, versions.settings())
    lock = ApiKey([KEY], variable="SWIFTLET_ADMIN_KEYS")
    return make_application(load(), load=load, admin_key=lock)


def reload(application: Any) -> httpx.Response:
    return application.ask("POST", "/admin/reload", headers=BEARER)


def outcomes(metrics: str) -> dict[str, float]:
    prefix = "swiftlet_reloads_total{outcome="
    lines = [line.removeprefix(prefix) for line in metrics.splitlines() if line.startswith(prefix)]
    return {name.strip('"}'): float(value) for name, value in (line.split() for line in lines)}


def test_a_reload_follows_a_changed_link(application, versions, other_index):
    def titles(query: str) -> list[str]:
        found = application.ask("GET", f"/suggest?q={query}").json()["suggestions"]
        return [each["title"] for each in found]

    versions.publish(other_index)
    assert len(application.ask("GET", "/search?q=tea").json()["hits"]) == 10
    assert (titles("volcano 20"), titles("tea")) == (["Volcano 20"], [])
    answer = reload(application)
    assert answer.status_code == 200
    found = application.ask("GET", "/search?q=a+hot+drink").json()
    assert (titles("volcano 20"), titles("tea")) == ([], ["tea"])
    assert found["hits"][0]["document_id"] == "tea"
    assert found["index"] == answer.json()["index"]
    assert (answer.json()["num_documents"], answer.json()["num_passages"]) == (3, 3)
    metrics = application.ask("GET", "/metrics").text
    assert outcomes(metrics)["loaded"] == 1
    assert f'fingerprint="{found["index"]}"' in metrics


def test_a_reload_takes_the_query_encoder_that_the_index_has_then(versions, small_index):
    settings = Settings(index=versions.current, threads=2)
    for prepare, expected in (
        (lambda index: put_query_encoder(LOOKUP_QUERY_ENCODER, index, {}), LOOKUP_QUERY_ENCODER),
        (None, DEFAULT_QUERY_ENCODER),
    ):
        versions.publish(small_index, prepare)
        with open_searcher(settings) as searcher:
            assert searcher.encoder_manifest == read_manifest(expected)


@pytest.mark.parametrize("breakage", BROKEN, ids=lambda breakage: breakage.__name__)
def test_a_broken_artefact_is_refused_and_the_old_index_stays_in_use(
    application, versions, other_index, breakage, caplog
):
    before = application.ask("GET", "/search?q=bread").content
    version = versions.publish(other_index, breakage)
    answer = reload(application)
    outcome, reason = BROKEN[breakage]
    assert answer.status_code == 409
    detail = answer.json()["detail"]
    assert reason in detail
    assert "/" not in reason
    if breakage is not move_to_another_space:
        assert str(version) in caplog.text
    assert str(version.parent) not in detail
    assert detail.endswith(" stays in use")
    assert reason in caplog.text
    found = outcomes(application.ask("GET", "/metrics").text)
    assert found.pop(outcome) == 1
    assert not any(found.values())
    assert application.ask("GET", "/search?q=bread").content == before
    assert application.ask("GET", "/health/ready").status_code == 200


def test_a_reload_with_an_unforeseen_error_is_answered_500(
    make_application, small_searcher, caplog
):
    def load() -> Searcher:
        raise MemoryError("no room")

    lock = ApiKey([KEY], variable="SWIFTLET_ADMIN_KEYS")
    application = make_application(small_searcher, load=load, admin_key=lock)
    with caplog.at_level(logging.INFO):
        assert reload(application).status_code == 500
    assert "no room" in caplog.text
    assert outcomes(application.ask("GET", "/metrics").text)["failed"] == 1
    assert application.ask("GET", "/search?q=bread").status_code == 200


def test_a_reload_that_never_ends_does_not_hold_up_the_end(small_searcher, monkeypatch, caplog):
    monkeypatch.setattr("service.live.reload._SECONDS_UNTIL_GIVEN_UP", 0.1)
    begun, let_go = Event(), Event()

    def load() -> Searcher:
        begun.set()
        let_go.wait(60)
        raise OSError

    reloader = Reloader(ServiceState(small_searcher), load, CollectorRegistry())
    under_way, waiting = reloader.request(), reloader.request()
    begun.wait(20)
    reloader.close()
    assert not under_way.done()
    assert waiting.cancelled()
    assert "a reload has not ended" in caplog.text
    let_go.set()


def test_after_an_unexpected_failure_the_next_reload_still_runs(small_searcher, caplog):
    # The loaded object is no searcher, so that only its publication fails.
    load: Any = lambda: None  # noqa: E731
    reloader = Reloader(ServiceState(small_searcher), load, CollectorRegistry())
    for times in (1, 2):
        with pytest.raises(AttributeError):
            reloader.request().result(20)
        assert caplog.text.count("failed unexpectedly") == times
    reloader.close()


@pytest.mark.parametrize("times", [1, 3])
def test_an_index_that_is_replaced_while_it_is_read_is_read_again_twice(
    versions, other_index, monkeypatch, times
):
    first = versions.current.resolve()
    published = [other_index, first, other_index][:times]
    opened = Searcher.open

    def publish_meanwhile(*args: Any, **kwargs: Any) -> Searcher:
        searcher = opened(*args, **kwargs)
        if published:
            versions.publish(published.pop(0))
        return searcher

    monkeypatch.setattr(Searcher, "open", publish_meanwhile)
    if times == 1:
        with open_searcher(versions.settings()) as searcher:
            assert searcher.place == versions.current.resolve() != first
    else:
        with pytest.raises(ReplacedError, match="current was replaced 3 times while it was read"):
            open_searcher(versions.settings())


def test_the_old_index_is_freed_after_its_last_request_and_not_before(
    application, versions, other_index
):
    in_use = application.state.loaded
    given_back = Event()
    weakref.finalize(in_use.searcher, given_back.set)
    old = versions.current.resolve()
    assert f"{old}/" in Path("/proc/self/maps").read_text()
    new = versions.publish(other_index)
    assert reload(application).status_code == 200
    assert in_use.searcher.search("bread").hits
    assert not given_back.is_set()
    del in_use
    assert given_back.wait(20)
    # Its mapped files are released too, some of them a moment later.
    while f"{old}/" in Path("/proc/self/maps").read_text():
        pass
    assert f"{new}/" in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize(("body", "status"), [(b"", 200), (b"{}", 200), (b'{"index":"/x"}', 422)])
def test_a_reload_takes_no_fields(application, body, status):
    answer = application.ask("POST", "/admin/reload", headers=BEARER, content=body)
    assert answer.status_code == status


def test_sighup_reloads_too(start_server, versions, other_index):
    server = start_server(index=versions.current)
    with server.client() as client:
        for breakage, outcome in ((flip_a_byte, "corrupt_file"), (None, "loaded")):
            versions.publish(other_index, breakage)
            server.process.send_signal(signal.SIGHUP)
            for _ in count():
                if outcomes(client.get("/metrics").text)[outcome]:
                    break
        assert client.get("/info").json()["index"]["num_documents"] == 3
    server.process.terminate()
    assert server.ended() == 0
    log = "".join(server.log)
    assert "reload refused, nothing has changed: " in log
    assert "passage_to_document.npy has been altered" in log
    assert "Traceback" not in log
