"""Connections are cut at the messages of each command: nothing is lost, and nothing is half."""

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx
import pytest

import swiftlet
from swiftlet.address import Address
from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import InvalidArgumentError, RetrievalError
from swiftlet.index.server import server_at
from swiftlet.index.updates.writer import Preparation, Writer
from swiftlet.search.searcher import Searcher
from swiftlet.servers.milvus import collection as milvus_collection
from swiftlet.servers.milvus import target as milvus_target
from swiftlet.servers.milvus.collection import Collection
from swiftlet.servers.postgres import target as postgres_target
from swiftlet.servers.pull import pull
from swiftlet.servers.push import push
from tests.cutting_proxy import CuttingProxy, Http2Protocol, Moment, PostgresProtocol
from tests.postgres_server import PostgresServer
from tests.service.conftest import running
from tests.swiftlet.servers.conftest import (
    LITE,
    LOOKUP,
    POSTGRESQL,
    WHOLE,
    Server,
    drop,
    exists,
)

FIGURES = os.environ.get("CRASH_FIGURES")
"""A file for the figures of a walk over all messages; without it, some messages are left out."""

NOT_WRITTEN, NOT_KNOWN = "nothing of this batch is written", "it is not known whether"
QUERIES = "tea is steeped", "molten rock"
OLD = [
    {"_id": "tea", "title": "Tea", "text": "Leaves are steeped in hot water. " * 40, "kind": "a"},
    {"_id": "rock", "text": "Molten rock becomes lava.", "kind": "b"},
    *({"_id": f"{number}", "text": f"text number {number}", "kind": "c"} for number in range(9)),
]
CHANGED = [
    {"_id": "tea", "title": "Green tea", "text": "Leaves are steamed.", "kind": "b"},
    {"_id": "mate", "text": "Mate is steeped, too.", "kind": "a"},
]
DELETED = ["rock", "3"]

_MESSAGES, _MESSAGES_OF_WHOLE = 5, 3
_MOMENTS = len(Moment) if FIGURES else 1
_AWAY_SECONDS = 3.0
_BUSY = """
    SELECT count(*) FROM pg_stat_activity WHERE application_name = 'swiftlet' AND state <> 'idle'
"""

Picture = Any
"""What a collection has, or the reason why it cannot be opened."""


def picture(address: Address) -> Picture:
    """All documents, embeddings and counts, and what searches find."""
    try:
        with opened(address) as searcher:
            kind = server_at(address)
            documents = {
                document.document_id: (document, embeddings.tobytes())
                for document, embeddings in kind.corpus(address).documents
            }
            about = kind.description(address)
            return documents, about.num_documents, hits(searcher), about.num_passages
    except InvalidArgumentError as error:
        reasons = [each for each in ("is not complete", "there is no") if each in f"{error}"]
        if not reasons:
            raise
        return reasons[0]


@cache
def encoder() -> OnnxEncoder:
    """The encoder, which is loaded once."""
    return OnnxEncoder.load(LOOKUP_QUERY_ENCODER)


@cache
def preparation() -> Preparation:
    """What encodes for writers, which loads its encoder once."""
    return Preparation(LOOKUP_QUERY_ENCODER, 1)


def opened(address: Address) -> Searcher:
    """A searcher of a collection."""
    return Searcher(server_at(address).source(address, encoder()), encoder().manifest)


def writer_of(address: Address) -> "closing[Writer]":
    """A writer of a collection, to be closed."""
    return closing(server_at(address).writer(address, preparation()))


def hits(searcher: Searcher) -> list[tuple[str, str, float]]:
    """What searches of each mode find."""
    return [
        (hit.document_id, hit.passage.text, round(hit.score, 4))
        for query in QUERIES
        for mode in searcher.modes
        for hit in searcher.search(query, 5, mode=mode)
    ]


def attempt(run: Callable[[], Any]) -> tuple[Any, str]:
    """What a command returns, or the sentence of its error."""
    try:
        return run(), ""
    except RetrievalError as error:
        return None, f"{error}"


@dataclass
class Stage:
    """A server behind a proxy, and indexes: the `new` one is the old one with changes."""

    server: Server
    proxy: CuttingProxy
    old: Path
    new: Path
    folder: Path
    figures: dict[str, Counter[Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def address(self, name: str) -> Address:
        """A collection behind the proxy."""
        return replace(self.server.address(name), port=self.proxy.port)

    def save(self, file: Path) -> None:
        """Add the figures to those of other servers and commands."""
        found = json.loads(file.read_text()) if file.exists() else {}
        kind = self.server.kind
        found[kind] = {**found.get(kind, {}), **self.figures}
        found["finished"] = "written by tests/swiftlet/servers/test_cuts.py"
        file.write_text(json.dumps(found, indent=1) + "\n")

    def settle(self, address: Address) -> None:
        """Wait until the server has ended what it does for connections that were cut."""
        if isinstance(self.server, PostgresServer):
            while self.server.ask(_BUSY) != [(0,)]:
                time.sleep(0.01)
        else:
            attempt(lambda: Collection(address).rows([0], ["document_id"], exactly=True))

    def walk(self, command: "Command") -> None:
        """Run a command again and again, and cut the connections at one message after the other."""
        command.reset()
        command.run()  # Milvus counts new words once, whatever is deleted afterwards
        command.reset()
        before = picture(command.direct)
        with self.proxy.cuts(0, Moment.BEFORE):
            expected = command.run()
        known = before, picture(command.direct), expected
        step = 1 if FIGURES else max(1, self.proxy.count // _messages(self.server))
        number, moments = 1, cycle(Moment)
        while all(self.cut(command, number, each, known) for each in islice(moments, _MOMENTS)):
            number += step

    def cut(
        self, command: "Command", number: int, moment: Moment, known: tuple[Picture, Picture, Any]
    ) -> bool:
        """Cut the connections once; false if there is no such message."""
        command.reset()
        before, after, expected = known
        with self.proxy.cuts(number, moment), pytest.MonkeyPatch.context() as patched:
            if moment is Moment.AWAY:  # the client of Milvus tries for as long as it may
                patched.setattr(milvus_collection, "LONGEST_SECONDS", _AWAY_SECONDS)
                patched.setattr(milvus_collection, "SLOW_SECONDS", _AWAY_SECONDS)
            found, error = attempt(command.run)
        if not self.proxy.has_cut:
            return False
        self.settle(command.direct)
        now = picture(command.direct)
        problems = [*self.judged(command, (before, now, after), (found, expected), error)]
        began = perf_counter()
        found, again = attempt(command.run) if error else (found, "")
        seconds = perf_counter() - began
        if now == after and "says that it was completed" in error and "was completed" in again:
            found, again = expected, ""
        if again or found != expected or picture(command.direct) != after:
            problems.append(f"the second try: {again or 'another result'}")
        counted = self.figures.setdefault(command.name, Counter(slowest_second_try_seconds=0.0))
        # Without an error, the client has tried again by itself, or needed no answer.
        counted.update(messages=moment is Moment.BEFORE, cuts=1, errors=bool(error))
        counted.update(wrong=bool(problems), second_tries_seconds=seconds)
        slowest = max(seconds, counted["slowest_second_try_seconds"])
        counted["slowest_second_try_seconds"] = slowest
        place = f"{command.name}, message {number}, {moment}: "
        self.problems += [place + problem for problem in problems]
        return True

    def judged(
        self, command: "Command", pictures: tuple[Picture, ...], values: tuple[Any, Any], error: str
    ) -> Iterator[str]:
        """What is wrong after a cut."""
        before, now, after = pictures
        found, expected = values
        if not error and now != after:
            yield f"it succeeded, but the collection is {summary(now)}"
        if not error and found != expected:
            yield f"it returned {found}"
        pictures = now, before, after
        if self.server.kind != "postgres":  # Milvus may count passages that are left over
            pictures = [each if isinstance(each, str) else each[:3] for each in pictures]
        if error and pictures[0] not in (*pictures[1:], *command.unfinished):
            yield f"the collection is neither the old nor the new one: {summary(now)}"
        secret = self.server.address("").token.rpartition(":")[2]
        if "\n" in error or (secret and secret in error):
            yield f"the error is {error!r}"
        if error and command.writes:
            if (NOT_WRITTEN in error) == (NOT_KNOWN in error):
                yield f"the error does not say what was written: {error}"
            if NOT_WRITTEN in error and now != before:
                yield f"something was written: {error}"
        if (searcher := command.searcher) is not None:
            found, error = attempt(lambda: (searcher.refresh(), hits(searcher)))
            if error and now not in command.unfinished:
                yield f"the running searcher says {error}"
            if not error and found[1] != now[2]:
                yield "the running searcher finds something else"


def summary(now: Picture) -> str:
    """A picture in one line."""
    return now if isinstance(now, str) else f"{now[1:]}, {sorted(now[0])}"


class Command:
    """What is walked: `run` after `reset`. It may leave a collection `unfinished`."""

    name, table = "", ""
    unfinished: tuple[str, ...] = ()
    writes = False
    searcher: Searcher | None = None

    def __init__(self, stage: Stage) -> None:
        self.stage, self.address = stage, stage.address(self.table)
        self.direct = stage.server.address(self.table)

    def reset(self) -> None:
        """Make what was there before."""

    def run(self) -> Any:
        """Run it behind the proxy."""
        raise NotImplementedError

    def close(self) -> None:
        """Close what it has opened."""
        if self.searcher is not None:
            self.searcher.close()


class Push(Command):
    """The push of a new index."""

    name, table, unfinished = "push", "cut_push", ("is not complete",)

    def reset(self) -> None:
        """Remove it."""
        if exists(self.direct):
            drop(self.stage.server, self.direct)

    def run(self) -> Any:
        """Push it."""
        return push(self.stage.old, self.address, index_type="HNSW", **LOOKUP)


class PushAgain(Command):
    """The push of an index with changes in the place of another one, which is searched."""

    name, table, unfinished = "push --overwrite", "cut_over", ("is not complete", "there is no")

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.reset()
        self.searcher = opened(self.address)

    def reset(self) -> None:
        """Push the old one."""
        push(self.stage.old, self.direct, overwrite=True, **LOOKUP)

    def run(self) -> Any:
        """Push the new one."""
        return push(self.stage.new, self.address, overwrite=True, **LOOKUP)


class OfOld(Command):
    """A command on the old index."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        push(stage.old, self.direct, overwrite=True, **LOOKUP)


class Put(OfOld):
    """A batch is put by a writer that has been open from the beginning."""

    name, table, writes = "put", "cut_put", True

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.writer = server_at(self.address).writer(self.address, preparation())
        self.searcher = opened(self.address)

    def reset(self) -> None:
        """Put what was there before."""
        with writer_of(self.direct) as writer:
            writer.put(OLD[:2])
            writer.delete(["mate"])

    def run(self) -> Any:
        """Put the batch."""
        return self.writer.put(CHANGED).num_documents

    def close(self) -> None:
        """Close both."""
        super().close()
        self.writer.close()


class Delete(Put):
    """Documents are deleted by this writer."""

    name, table = "delete", "cut_delete"

    def reset(self) -> None:
        """Put them again."""
        with writer_of(self.direct) as writer:
            writer.put([each for each in OLD if each["_id"] in DELETED])

    def run(self) -> Any:
        """Delete them."""
        self.writer.delete(DELETED)


class Open(OfOld):
    """A searcher and a writer are opened, and it is searched."""

    name, table = "open", "cut_open"

    def run(self) -> Any:
        """Open and search it."""
        with writer_of(self.address):
            pass
        with opened(self.address) as searcher:
            return hits(searcher), searcher.document("tea"), searcher.facets()


class Refresh(Put):
    """A running searcher takes in what another program has put."""

    name, table, writes = "refresh", "cut_refresh", False

    def reset(self) -> None:
        """Change the collection."""
        super().reset()
        with writer_of(self.direct) as writer:
            writer.put(CHANGED)

    def run(self) -> Any:
        """Refresh and search it."""
        self.searcher.refresh()
        return hits(self.searcher)


class Pull(OfOld):
    """An index directory is made of it."""

    name, table = "pull", "cut_pull"

    def reset(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.stage.folder / "pulled", ignore_errors=True)

    def run(self) -> Any:
        """Pull it; an earlier try must have left nothing."""
        return pull(self.address, self.stage.folder / "pulled", LOOKUP_QUERY_ENCODER).fingerprint


COMMANDS = Push, PushAgain, Put, Delete, Open, Refresh, Pull


@pytest.fixture(scope="module")
def stage(server, tmp_path_factory) -> Iterator[Stage]:
    """A stage, of which the figures are kept."""
    folder = tmp_path_factory.mktemp("cuts")
    old, new = folder / "old", folder / "new"
    swiftlet.build(OLD, old, facets=["kind"], **LOOKUP)
    shutil.copytree(old, new)
    with swiftlet.write(new, **LOOKUP) as writer:
        writer.put(CHANGED)
        writer.delete(DELETED)
    protocol = PostgresProtocol if server.kind == "postgres" else Http2Protocol
    with closing(CuttingProxy(server.port, protocol)) as proxy:
        yield Stage(server, proxy, old, new, folder)


def _messages(server: Server) -> int:
    """How many messages of a command are cut: few where the server takes seconds for a push."""
    return _MESSAGES if server.kind in {"postgres", "lite"} else _MESSAGES_OF_WHOLE


@pytest.fixture
def command(request, stage, monkeypatch) -> Iterator[Command]:
    """A command on indexes of several batches."""
    for module, name in ((milvus_target, "_BATCH_ROWS"), (postgres_target, "_BATCH_PASSAGES")):
        monkeypatch.setattr(module, name, 12)
    monkeypatch.setattr(milvus_target, "_NOTED_BATCHES", 2)
    stage.problems.clear()
    with closing(request.param(stage)) as command:
        yield command


def walked(kinds: tuple[type[Command], ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("command", kinds, indirect=True, ids=lambda kind: kind.name)


@pytest.mark.timeout(3600 if FIGURES else 300)
@pytest.mark.parametrize("server", [LITE, POSTGRESQL], indirect=True, scope="session")
@walked(COMMANDS)
def test_a_cut_leaves_the_old_or_the_new_and_the_next_try_succeeds(stage, command):
    stage.walk(command)
    if FIGURES:
        stage.save(Path(FIGURES))
    assert not stage.problems, "\n".join(stage.problems)
    assert stage.figures[command.name]["cuts"] > _messages(stage.server) / 2


@pytest.mark.timeout(3600 if FIGURES else 300)
@pytest.mark.parametrize("server", [WHOLE], indirect=True, scope="session")
@walked(COMMANDS if FIGURES else (PushAgain, Put))  # each push takes ten seconds there
def test_a_cut_of_the_whole_server_does_so_too(stage, command):
    test_a_cut_leaves_the_old_or_the_new_and_the_next_try_succeeds(stage, command)


@pytest.mark.parametrize("server", [LITE, POSTGRESQL], indirect=True, scope="session")
def test_the_service_answers_what_is_written_and_the_next_request_succeeds(stage):
    key = "a-write-key-of-the-tests"
    put = Put(stage)
    # The client of Milvus tries for as long as it may.
    moments = [*Moment] if stage.server.kind == "postgres" else [Moment.AFTER, Moment.LOST]

    def written() -> Picture:
        return picture(put.direct)[0]

    def ask() -> httpx.Response:
        headers, body = {"Authorization": f"Bearer {key}"}, {"documents": CHANGED}
        return client.put("/documents", json=body, headers=headers, timeout=100)

    put.run()
    new = written()
    settings = {"index_token": put.address.token, "write_keys": key}
    with closing(put), running(put.address, **settings) as service, service.client() as client:
        for number, moment in zip(range(1, 13), cycle(moments), strict=False):
            put.reset()
            old = written()
            with stage.proxy.cuts(number, moment):
                answer = ask()
            stage.settle(put.direct)
            detail = answer.json().get("detail", "")
            assert answer.status_code in (200, 503, 504), answer.text
            if answer.status_code == 200 or "all is written" in detail:
                assert written() == new
            elif NOT_WRITTEN in detail:
                assert written() == old
            else:
                assert NOT_KNOWN in detail
            assert ask().status_code == 200
            assert written() == new
            found = client.post("/search", json={"query": "mate", "top_k": 1}).json()["hits"]
            assert [hit["document_id"] for hit in found] == ["mate"]


@pytest.mark.parametrize("server", [LITE, WHOLE], indirect=True, scope="session")
def test_a_batch_whose_answer_is_lost_is_on_milvus_once(stage):
    name = "cut_insert"
    count = push(stage.old, stage.server.address(name), overwrite=True, **LOOKUP).num_passages
    target = milvus_target.MilvusTarget(stage.address(name))
    (row,) = target.collection.call("query", filter="", limit=1, output_fields=["*"])
    for number in range(1, 9):
        with stage.proxy.cuts(number, Moment.LOST):
            target._write_batch([{**row, "row": number}], is_new=True)
        count += 1
        assert target.count() == count
        if not stage.proxy.has_cut:
            break
    assert number > 1
