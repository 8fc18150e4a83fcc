"""Flips single bits in every file of artefacts, while they are closed and while they are searched.

A flip is refused by an error that names the file, or is without effect: 500 queries are answered as
before. The flips are the same each time.
"""

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

import swiftlet
from swiftlet.encoders.reranker import OnnxReranker
from swiftlet.index.changes.log import CHANGES_FILE
from swiftlet.index.directory import documents
from tests.artefacts.answers import ENCODERS, FOLDER, INDEXES

FLIPS = 200
QUERIES = 500
SEEDS = {"flips": 5, "queries": 7}

Answers = list[Any]
Ask = Callable[[], Answers]


def texts(count: int) -> list[str]:
    """Queries of a few words of the documents."""
    chance = Random(SEEDS["queries"])
    found: list[str] = []
    words = sorted({word for each in documents(FOLDER / "words") for word in each.text.split()})
    while len(found) < count:
        found.append(" ".join(chance.sample(words, chance.randint(1, 6))))
    return found


def ask_index(searcher: swiftlet.Searcher, queries: list[str]) -> Answers:
    """What an open index answers in each mode, with filters, facets and whole documents."""
    kinds: list[dict[str, Any]] = [{"mode": mode} for mode in searcher.modes]
    kinds += [{"filter": {"topic": ["volcano", "tides"]}}, {"filter": {"year": {"gte": 2010}}}]
    found: Answers = [searcher.facets(), sorted(searcher.document_ids({"tags": "sea"}))]
    for query, kind in zip(queries, cycle(kinds), strict=False):
        hits = searcher.search(query, 5, **kind).hits
        found.append([(hit.document_id, hit.score, hit.passage, hit.metadata) for hit in hits])
    return found + [searcher.document(f"{each.document_id}") for each in searcher.search("sea", 99)]


def ask_texts(opened: Any, queries: list[str]) -> Answers:
    """The embeddings of an encoder, or the scores of a re-ranker."""
    if hasattr(opened, "encode"):
        rows: Answers = opened.encode(queries).tolist()
        return rows
    return [opened.score("salt of the sea", query) for query in queries]


@contextmanager
def opened(folder: Path, name: str, queries: list[str]) -> Iterator[Ask]:
    """An artefact of `tests/artefacts`, open; gives a function that asks it all queries."""
    if name in INDEXES:
        options: dict[str, Any] = {
            option: folder / place for option, place in INDEXES[name].items()
        }
        with swiftlet.open(folder / name, **options) as searcher:
            source: Any = searcher._source
            source.seconds_between_looks = 0

            def ask() -> Answers:
                # A service does so once in a while: each look verifies another megabyte.
                for _ in range(4 * len(searcher.index_manifest.files)):
                    searcher.refresh()
                return ask_index(searcher, queries)

            yield ask
    elif name in ENCODERS:
        encoder = swiftlet.load_encoder(folder / name)
        yield lambda: ask_texts(encoder, queries)
    else:
        reranker = OnnxReranker.load(folder / name)
        yield lambda: ask_texts(reranker, queries)


def flip(path: Path, at: int, bit: int) -> None:
    """Flip one bit of a file in its place; once more undoes it."""
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))


def leave_a_log(folder: Path) -> None:
    """Change the living index as a process does that is killed: SQLite's log has the changes."""
    index = folder / "changed"
    with swiftlet.write(index, encoder=folder / "encoder") as writer:
        for number in range(5):
            writer.put(
                [{"id": f"new {number}", "text": "salt of the sea", "metadata": {"tags": "sea"}}]
            )
        writer.delete(["new 1", "chess-2"])
        kept = {
            each: each.read_bytes() for each in index.glob("changes.*") if "-shm" not in each.name
        }
    for path, content in kept.items():
        path.write_bytes(content)


def outcome(ask: Ask, right: Answers, path: Path) -> str:
    """How a flip in the file at `path` ends."""
    try:
        found = ask()
    except swiftlet.RetrievalError as error:
        name = path.name.partition("-wal")[0]
        return "refused by name" if name in f"{error}" else f"refused without name: {error}"
    except Exception as error:  # noqa: BLE001 - an error that is not ours is what is looked for
        return f"untyped: {error!r}"
    return "without effect" if found == right else "wrong"


def walk(
    names: list[str], work: Path, *, flips: int = FLIPS, queries: int = QUERIES
) -> dict[str, Any]:
    """Flip bits in all files of artefacts; the figures of all outcomes, by file and state.

    :param flips: The number of bits in each file, closed and once more while it is open.
    """
    folder, asked = Path(shutil.copytree(FOLDER, work / "artefacts")), texts(queries)
    counts: dict[str, dict[str, dict[str, int]]] = {"closed": {}, "open": {}}
    wrong: list[list[Any]] = []
    leave_a_log(folder)
    for name in names:
        with opened(folder, name, asked) as ask:
            right = ask()

        def ask_anew(name: str = name) -> Answers:
            (folder / name / f"{CHANGES_FILE}-shm").unlink(missing_ok=True)  # as after a restart
            with opened(folder, name, asked) as ask:
                return ask()

        for path in sorted(each for each in (folder / name).rglob("*") if each.is_file()):
            if path.name.endswith("-shm"):  # memory that processes share, and no file to keep
                continue
            place, chance = f"{path.relative_to(folder)}", Random(SEEDS["flips"])
            tally = {state: Counter[str]() for state in counts}
            for _ in range(flips if path.stat().st_size else 0):
                at, bit = chance.randrange(path.stat().st_size), chance.randrange(8)
                with opened(folder, name, asked) as ask:
                    flip(path, at, bit)
                    found = {"open": outcome(ask, right, path)}
                found["closed"] = outcome(ask_anew, right, path)
                flip(path, at, bit)
                for state, each in found.items():
                    tally[state][each] += 1
                    if each not in {"refused by name", "without effect"}:
                        wrong.append([place, state, at, bit, each])
            for state, found_in in tally.items():
                counts[state][place] = dict(found_in)
            print(place, *tally.values(), file=sys.stderr, flush=True)
    return {
        "flips_each": flips,
        "queries": queries,
        "flips": sum(sum(each.values()) for files in counts.values() for each in files.values()),
        "outcomes": {
            state: dict(sum((Counter(each) for each in files.values()), Counter()))
            for state, files in counts.items()
        },
        "files": counts,
        "wrong": wrong,
    }


NAMES = ["changed", "pieces", "codes", "encoder", "reranker"]
"""A living index, one with a query encoder of its own, one of large collections, and the models."""
