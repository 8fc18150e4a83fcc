"""Random histories: one writer, two readers, a service, merges, snapshots, restorations, faults.

It runs with the recorder preloaded: `python -m tests.crashes` starts it.
"""

import json
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import httpx
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.errors import RetrievalError, UnfinishedWriteError
from swiftlet.search.searcher import Searcher
from tests.crashes import recorder
from tests.crashes.operations import (
    ADD,
    BUILT,
    INDEX,
    KEPT,
    MERGE,
    REPAIR,
    RESTORE,
    SNAPSHOT,
    SPOIL,
    STAGE,
    TUNE,
    Operation,
    Place,
    State,
    build,
    delete,
    found,
    ids_of,
    publish,
    put,
    texts_of,
)
from tests.crashes.recorder import FAULTS
from tests.service.conftest import start

KEY = "the-write-key-of-the-machine"
IDS = st.sampled_from([f"{number}" for number in range(8)])
TEXTS = st.dictionaries(IDS, st.sampled_from(["one text", "two texts", "text " * 300]), min_size=1)
FAULT = st.none() | st.tuples(st.sampled_from([*FAULTS]), st.integers(1, 60))

_STEPS_BEFORE_A_SERVICE = 3
"""Its start takes as long as some hundred other steps."""

work = Path()
counts = dict.fromkeys(
    ("histories", "steps", "faults", "refused", "unknown", "services", "kills"), 0
)


class Machine(RuleBasedStateMachine):
    """An index that a model follows; after each step, both readers find what the model has."""

    def __init__(self) -> None:
        super().__init__()
        counts["histories"] += 1
        self.root = work / "machine"
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()
        self.state: State = {}
        self.place = Place(self.root)
        self.readers: list[Searcher] = []
        self.steps_since_service = 0

    @initialize(count=st.integers(1, 6))
    def begin(self, count: int) -> None:
        """There is an index with a snapshot."""
        for operation in (build(INDEX, count), SNAPSHOT, STAGE):
            self._run(operation, None)

    @rule(texts=TEXTS, fault=FAULT)
    def put(self, texts: Mapping[str, str], fault: tuple[str, int] | None) -> None:
        self._run(put(texts), fault)

    @rule(ids=st.sets(IDS, min_size=1), fault=FAULT)
    def delete(self, ids: set[str], fault: tuple[str, int] | None) -> None:
        self._run(delete(*ids), fault)

    @rule(operation=st.sampled_from([ADD, MERGE, SNAPSHOT, TUNE]), fault=FAULT)
    def work_on(self, operation: Operation, fault: tuple[str, int] | None) -> None:
        self._run(operation, fault)

    @rule(count=st.integers(1, 6), where=st.sampled_from([INDEX, BUILT]), fault=FAULT)
    def build(self, count: int, where: str, fault: tuple[str, int] | None) -> None:
        self._run(build(where, count), fault)

    @rule(number=st.integers(), fault=FAULT)
    def publish(self, number: int, fault: tuple[str, int] | None) -> None:
        self._run(publish(f"{number}"), fault)

    @rule(fault=FAULT)
    def repair(self, fault: tuple[str, int] | None) -> None:
        """The disk alters a change, and a repair saves the other ones; perhaps by a second try."""
        SPOIL.run(self.place)
        damaged = SPOIL.after(self.state)
        with suppress(RetrievalError):
            self._struck(REPAIR, fault)
        left = found(self.root, search=False)
        allowed = [*REPAIR.before_end(damaged), REPAIR.after(damaged)]
        assert left in allowed, f"repair: {left}, expected {allowed}"
        REPAIR.run(self.place)
        shutil.rmtree(self.root / KEPT)
        repaired = {**REPAIR.after(damaged)}
        del repaired[KEPT]
        self._settle([repaired], "repair")

    @rule()
    def restore(self) -> None:
        self._run(RESTORE, None)

    @rule()
    def another_writer(self) -> None:
        """The writer's program ends, and the next one begins."""
        self.place.close()

    @rule()
    def another_reader(self) -> None:
        """One of the readers ends."""
        if self.readers:
            self.readers.pop(0).close()

    @precondition(lambda self: self.steps_since_service >= _STEPS_BEFORE_A_SERVICE)
    @rule(texts=TEXTS, gone=st.sets(IDS), wait=st.none() | st.floats(0, 0.2))
    def serve(self, texts: Mapping[str, str], gone: set[str], wait: float | None) -> None:
        """A service puts and deletes; it is killed `wait` seconds after a put was sent."""
        counts["services"] += 1
        self.steps_since_service = 0
        self.place.close()
        before = self.state
        served = start(self.root / INDEX, encoder=LOOKUP_QUERY_ENCODER, write_keys=KEY, threads=1)
        allowed = [before]
        try:
            with served.client() as client:
                client.headers["Authorization"] = f"Bearer {KEY}"
                rows = [{"_id": each, "text": text} for each, text in texts.items()]
                allowed.append(put(texts).after(before))
                if wait is not None:
                    counts["kills"] += 1
                    with suppress(httpx.HTTPError):
                        client.put("/documents", json={"documents": rows}, timeout=wait + 0.001)
                    time.sleep(wait)
                else:
                    answer = client.put("/documents", json={"documents": rows})
                    assert answer.is_success, answer.text
                    allowed = allowed[1:]
                    answer = client.request("POST", "/documents/delete", json={"ids": [*gone]})
                    if answer.is_success:
                        allowed = [delete(*gone).after(allowed[0])]
        finally:
            served.process.kill()
            served.ended()
        self._settle(allowed, "the service")

    def teardown(self) -> None:
        self.place.close()
        for reader in self.readers:
            reader.close()

    def _run(self, operation: Operation, fault: tuple[str, int] | None) -> None:
        after, allowed = operation.after(self.state), operation.before_end(self.state)
        try:
            self._struck(operation, fault)
            allowed = [after]
        except UnfinishedWriteError:
            counts["unknown"] += 1
            allowed.append(after)
        except RetrievalError:
            counts["refused"] += 1
            assert fault is not None
        self._settle(allowed, operation.name)

    def _struck(self, operation: Operation, fault: tuple[str, int] | None) -> None:
        counts["steps"] += 1
        self.steps_since_service += 1
        if fault is not None:
            recorder.watch(self.root)
            recorder.strike(fault[1], FAULTS[fault[0]])
        try:
            operation.run(self.place)
        finally:
            if fault is not None:
                counts["faults"] += bool(recorder.end())

    def _settle(self, allowed: list[State], what: str) -> None:
        """Take what there is now as the state, if it is allowed; readers find it too."""
        left = found(self.root, search=False)
        assert left in allowed, f"{what}: {left}, expected {allowed}"
        self.state = left
        while len(self.readers) < 2:
            self.readers.append(Searcher.open(self.root / INDEX, LOOKUP_QUERY_ENCODER))
        for reader in self.readers:
            reader.refresh()
            assert ids_of(reader) == left[INDEX].keys(), what
        assert texts_of(self.root / INDEX) == left[INDEX]


def main() -> None:
    """Run histories until the time is over; print the counts as JSON."""
    global work
    work, number, end = Path(sys.argv[1]), int(sys.argv[2]), time.monotonic() + float(sys.argv[3])
    failure = ""
    while time.monotonic() < end and not failure:
        run = settings(
            max_examples=4,
            stateful_step_count=20,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=[*HealthCheck],
            verbosity=Verbosity.quiet,
        )
        print(f"seed {number}", file=sys.stderr, flush=True)
        try:
            seed(number)(Machine)
            run_state_machine_as_test(Machine, settings=run)
        except Exception as error:  # noqa: BLE001 - it is the result
            notes = "\n".join(getattr(error, "__notes__", ()))
            failure = f"seed {number}: {type(error).__name__}: {error}\n{notes}"
        number += 1
    print(json.dumps({**counts, "failure": failure}))


if __name__ == "__main__":
    main()
