"""Writers that are killed at any moment: nothing acknowledged is lost, nothing deleted returns.

The variable KILLS sets how many kills the soak test makes: 1000 takes a quarter of an hour.
"""

import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, islice
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import UnknownDocumentError
from swiftlet.index.building.build import build_index
from swiftlet.index.directory import IndexDirectory
from swiftlet.index.updates.directory_writer import IndexWriter
from swiftlet.types import Document

KILLS = int(os.environ.get("KILLS", "100"))
IDS = [f"{number:02}" for number in range(30)]
SECONDS = {"put": 0.2, "delete": 0.0005, "compact": 0.6}
"""About how long each step takes."""
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])


def steps(seed: int) -> Iterator[tuple[str, list[str], str]]:
    """What a writer does, step by step: a verb, ids, and the text of documents."""
    choice = random.Random(seed)
    for number in count():
        verb = choice.choice(["put", "put", "delete", "compact"])
        yield verb, choice.sample(IDS, choice.randint(1, 8)), f"the text of step {number} " * 9


def step_at(seed: int, number: int) -> tuple[str, list[str], str]:
    return next(islice(steps(seed), number, None))


def write(index: Path, seed: int, first: int, acknowledge: Connection) -> None:
    with IndexWriter(index, DEFAULT_ENCODER, threads=1) as writer:
        acknowledge.send(first)
        for number, (verb, ids, text) in enumerate(islice(steps(seed), first, None), start=first):
            if verb == "put":
                writer.put([Document(document_id, text) for document_id in ids])
            elif verb == "delete":
                writer.delete(ids)
            else:
                writer.compact()
            acknowledge.send(number + 1)


def after(state: dict[str, str], step: tuple[str, list[str], str]) -> dict[str, str]:
    verb, ids, text = step
    if verb == "put":
        return {**state, **dict.fromkeys(ids, text)}
    return {each: text for each, text in state.items() if verb != "delete" or each not in ids}


def stored(index: Path, encoder: OnnxEncoder) -> dict[str, str]:
    """The texts of all documents that the index has; every file is verified."""
    directory = IndexDirectory(index, encoder)
    found = {}
    for document_id in IDS:
        try:
            found[document_id] = directory.parts.store.document(document_id).text
        except UnknownDocumentError:
            continue
    assert directory.parts.store.num_documents == len(found)
    directory.close()
    return found


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kills", [20, pytest.param(KILLS, marks=pytest.mark.soak)])
def test_nothing_is_lost_or_comes_back_when_writers_are_killed(
    tmp_path: Path, shipped_encoder: OnnxEncoder, kills: int
) -> None:
    index, choice = tmp_path / "index", random.Random(kills)
    build_index([Document(each, f"built {each}") for each in IDS[::2]], DEFAULT_ENCODER, index)
    state, done = stored(index, shipped_encoder), 0
    killed_in = dict.fromkeys(SECONDS, 0)
    for _ in range(kills):
        acknowledged, acknowledge = _CONTEXT.Pipe(duplex=False)
        writer = _CONTEXT.Process(target=write, args=(index, kills, done, acknowledge), daemon=True)
        writer.start()
        acknowledge.close()
        assert acknowledged.recv() == done
        wanted = choice.choice([*SECONDS])
        while step_at(kills, done)[0] != wanted:
            state, done = after(state, step_at(kills, done)), acknowledged.recv()
        time.sleep(choice.uniform(0, SECONDS[wanted]))
        writer.kill()
        writer.join()
        with suppress(EOFError):
            while True:
                now = acknowledged.recv()
                state, done = after(state, step_at(kills, done)), now
        step = step_at(kills, done)
        found = stored(index, shipped_encoder)
        assert found in (state, after(state, step)), step
        killed_in[step[0]] += 1
        if found != state:
            state, done = found, done + 1
    if kills < KILLS:
        del killed_in["delete"]  # so short that few kills may all miss it
    assert all(killed_in.values()), killed_in
    with IndexWriter(index, DEFAULT_ENCODER) as last:
        last.compact()
    assert stored(index, shipped_encoder) == state
    assert [*tmp_path.iterdir()] == [index]
