"""Walks all points at which operations change files, and checks what a crash or a fault leaves.

It runs with the recorder preloaded: `python -m tests.crashes` starts it.
"""

import json
import random
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from swiftlet.errors import RetrievalError, UnfinishedWriteError
from tests.crashes import recorder
from tests.crashes.filesystem import FileSystem, write_out
from tests.crashes.operations import (
    ADD,
    ADOPT,
    BUILT,
    DAMAGED,
    EXPORT_VECTORS,
    INDEX,
    MERGE,
    RELOAD,
    REPAIR,
    RERANK,
    RESTORE,
    SEEN,
    SERVE_TOOLS,
    SNAPSHOT,
    SPOIL,
    STAGE,
    SYNC,
    TUNE,
    Operation,
    Place,
    State,
    build,
    delete,
    found,
    ids_of,
    merge_with,
    publish,
    put,
    recover,
)
from tests.crashes.recorder import FAULTS, Op

_SEARCHED = 8
"""Every so many states are searched and merged, too. That is dear, and all files have hashes."""

_SECTOR = 512
"""Bytes that are written completely or not at all."""

_MAPPED = "-shm"
"""The index of SQLite's log is written through a memory map, and made again after a crash."""

HISTORY = (
    build(INDEX, 5),
    put({"new": "a new text"}, "first put"),
    put({"1": "another text", "2": "another text"}),
    delete("3", "new"),
    SNAPSHOT,
    MERGE,
    delete("4"),
    merge_with({"meanwhile": "a text meanwhile"}),
    RELOAD,
    SNAPSHOT,
    put({"1": "a third text"}),
    RESTORE,
    TUNE,
    put({"again": "a text after the restoration"}),
    build(BUILT, 3),
    build(INDEX, 4),
    publish("one"),
    publish("two"),
    STAGE,
    ADD,
    EXPORT_VECTORS,
    ADOPT,
    SYNC,
    put({"1": "a fourth text"}),
    EXPORT_VECTORS,
    SERVE_TOOLS,
    RERANK,
    SPOIL,
    REPAIR,
)
"""Each operation, from the state in which those before it leave the files."""


@dataclass
class Tally:
    """What was walked and what was wrong."""

    points: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    recoveries: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def note(self, wrong: str) -> None:
        """Keep what was wrong, and print it, since the walk takes long."""
        self.wrong.append(wrong)
        print(wrong, file=sys.stderr, flush=True)

    def check(self, where: str, check: Callable[[], object]) -> None:
        """Note as wrong what a check raises."""
        try:
            check()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the result
            at = traceback.extract_tb(error.__traceback__)[-1]
            last = f"{Path(at.filename).name}:{at.lineno}"
            self.note(f"{where}: {type(error).__name__}: {error} ({last})"[:600])


def random_history(seed: int, length: int) -> Sequence[Operation]:
    """Operations in a random order, after a build."""
    choice = random.Random(seed)
    ids = [f"{number}" for number in range(8)]

    def operations() -> Iterator[Operation]:
        yield build(INDEX, choice.randint(2, 6))
        yield SNAPSHOT
        for number in range(length):
            some = choice.sample(ids, choice.randint(1, 4))
            texts = {each: f"text {number} of {each} " * choice.randint(1, 30) for each in some}
            of_index = put(texts), put(texts), delete(*some), MERGE, merge_with(texts), TUNE
            beside = SNAPSHOT, RESTORE, publish(f"{number}"), build(BUILT, 2 + number % 3)
            yield choice.choice([*of_index, *beside])

    return [*operations()]


def walk_crashes(
    history: Sequence[Operation], work: Path, tally: Tally, *, every: int, seed: int, losses: int
) -> None:
    """Kill after each change and in the middle of each write; lose power after each change.

    :param every: Lose power after every so many changes only.
    :param losses: How many random states of the disk each time, besides those that are not.
    """
    root = _emptied(work / "recorded")
    files = FileSystem(root)
    recorder.watch(root, record=True)
    place = Place(root)
    for number, operation in enumerate(history):
        recorder.mark(f"begin {number}")
        operation.run(place)
        recorder.mark(f"end {number}")
    place.close()
    recorder.end()
    log, state, seen = recorder.log(), dict[str, object](), set[int]()
    allowed: list[State] = [state]
    name, is_staged = "", False
    for number, entry in enumerate(log):
        if entry.op is Op.MARK:
            verb, operation = entry.path.split()
            now = history[int(operation)]
            name, after = now.name, now.after(state)
            allowed = [*now.before_end(state), after] if verb == "begin" else [after]
            state = state if verb == "begin" else after
            is_staged = now.is_staged and verb == "begin"
            continue
        if is_staged:
            files.apply(entry)
            continue
        where = f"{name}, change {number} ({entry.op.name} {Path(entry.path).name})"
        if entry.op is Op.WRITE and len(entry.data) > _SECTOR:
            sectors = max(1, len(entry.data) // _SECTOR // 2)
            files.apply(replace(entry, data=entry.data[: _SECTOR * sectors]))
            _after_crash(files.after_kill(), work, allowed, tally, f"kill in the middle, {where}")
            tally.points["killed in the middle of a write"] += 1
        files.apply(entry)
        if entry.op is not Op.SYNC:
            _after_crash(files.after_kill(), work, allowed, tally, f"kill after {where}")
            tally.points["killed"] += 1
            tally.operations[name] += 1
        if number % every or (name == RESTORE.name and len(allowed) == 2):
            continue  # tar does not sync what it unpacks
        for left in files.after_power_loss(seed + number, losses):
            key = hash(tuple(sorted((*each, str(allowed)) for each in left.items() if each[1])))
            if key in seen:
                continue
            seen.add(key)
            _after_crash(left, work, allowed, tally, f"power loss after {where}")
            tally.points["power loss"] += 1
    odd = {path for path, _ in {*files.after_kill().items()} ^ {*_on_disk(root).items()}}
    if odd := {each for each in odd if not each.endswith(_MAPPED)}:
        tally.note(f"the recorder has not seen all changes: {sorted(odd)}")


def walk_faults(
    history: Sequence[Operation], work: Path, tally: Tally, *, every: int, first: int, warm: bool
) -> None:
    """Let each fault happen at each point of each operation; then the cause is gone.

    :param every: Strike every so many points only, from the `first`.
    :param warm: Whether the index is open and has been written by the process before.
    """
    before, state = _emptied(work / "before"), dict[str, object]()
    for operation in history:
        for fault in () if operation.is_staged else FAULTS:
            for number in count(first, every):
                root = _emptied(work / "struck")
                shutil.copytree(before, root, dirs_exist_ok=True)
                if not _strike(operation, root, state, fault, number, tally, warm=warm):
                    break
                tally.points[fault] += 1
                tally.operations[operation.name] += 1
        with closing(Place(before)) as place:
            operation.run(place)
        state = operation.after(state)


def _strike(
    operation: Operation,
    root: Path,
    state: State,
    fault: str,
    number: int,
    tally: Tally,
    *,
    warm: bool,
) -> bool:
    """One fault; whether the operation has so many points."""
    place = Place(root)
    damaged = DAMAGED in state.get(INDEX, {})
    if warm and not damaged:
        place.warm()
    after, answer = operation.after(state), "done"
    recorder.watch(root)
    recorder.strike(number, FAULTS[fault])
    try:
        operation.run(place)
    except UnfinishedWriteError:
        answer = "unknown"
    except RetrievalError:
        answer = "refused"
    except Exception as error:  # noqa: BLE001
        answer = f"{type(error).__name__}: {error}"[:200]
    struck_at = recorder.end()
    place_of_fault = f"{number} ({struck_at.replace(str(root), '')})"
    where = f"{operation.name}{' (warm)' * warm}, {fault} at {place_of_fault}, {answer}"
    if not struck_at:
        place.close()
        return False
    tally.answers[answer if answer in {"done", "refused", "unknown"} else "other"] += 1
    if answer not in {"done", "refused", "unknown"} and operation is not RESTORE:
        tally.note(f"{where}: an error without a type")
    before_end = operation.before_end(state)
    allowed = {"done": [after], "refused": before_end}.get(answer, [*before_end, after])
    if operation is RESTORE or (operation.name.startswith("merge beside") and answer != "done"):
        allowed = [state, after]

    def check() -> None:
        left = found(root, search=False)
        assert left in allowed, _difference(left, allowed)

    def again() -> None:
        operation.run(place)  # the same writer goes on
        if warm and INDEX in after:
            place.searcher.refresh()
            assert ids_of(place.searcher) == after[INDEX].keys()
        place.close()
        left = found(root, search=number % _SEARCHED == 0)
        assert left == after, _difference(left, [after])
        recover(root, merge=number % _SEARCHED == 0)
        hidden = {each.name.removesuffix("-shm").removesuffix("-wal") for each in root.glob(".*")}
        assert hidden <= {SEEN}, "working files are left"

    tally.check(f"{where}; then", check)
    tally.check(f"{where}; once more", again)
    tally.check(f"{where}; at the end", place.close)
    return True


def _after_crash(
    files: dict[str, bytes | None], work: Path, allowed: Sequence[State], tally: Tally, where: str
) -> None:
    """Open what is left, as the next process does."""
    root = _emptied(work / "crashed")
    write_out(files, root)

    def check() -> None:
        is_searched = len(tally.recoveries) % _SEARCHED == 0
        left = found(root, search=is_searched)
        assert left in allowed, _difference(left, allowed)
        if INDEX in left:
            damaged = DAMAGED in left[INDEX]
            tally.recoveries.append(recover(root, damaged=damaged, merge=is_searched))

    tally.check(where, check)


def _difference(left: State, allowed: Sequence[State]) -> str:
    wanted = allowed[-1]
    names = [each for each in {*left, *wanted} if left.get(each) != wanted.get(each)]
    return "; ".join(f"{n}: found {left.get(n)}, expected {wanted.get(n)}" for n in names)


def _emptied(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def _on_disk(root: Path) -> dict[str, bytes | None]:
    return {
        each.relative_to(root).as_posix(): None if each.is_dir() else each.read_bytes()
        for each in root.rglob("*")
    }


def main() -> None:
    """Walk as the arguments say, as JSON; print the tally as JSON."""
    work, wanted = Path(sys.argv[1]), json.loads(sys.argv[2])
    tally = Tally()
    history = random_history(wanted["seed"], wanted["length"]) if wanted["length"] else HISTORY
    every = wanted["every"]
    if "first" in wanted:
        first, warm = wanted["first"], wanted["warm"]
        walk_faults(history, work, tally, every=every, first=first, warm=warm)
    else:
        seed, losses = wanted["seed"], wanted["losses"]
        walk_crashes(history, work, tally, every=every, seed=seed, losses=losses)
    print(json.dumps(vars(tally)))


if __name__ == "__main__":
    main()
