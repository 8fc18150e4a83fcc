"""Documents are put, replaced and deleted until all have changed, while searches arrive."""

import json
import random
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle, islice
from math import ceil
from pathlib import Path
from statistics import fmean, median
from threading import Event
from timeit import timeit
from typing import Any

import numpy as np

import swiftlet
from measuring.command_line import LoadTestError
from measuring.http_client import OK
from measuring.load_figures import percentile
from measuring.processes import Service, call, pinned
from measuring.results import at_most, growth, milliseconds, none_of, spread
from measuring.testbed import Testbed, by_outcome, each_second, wait_until
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.index.documents.store import DOCUMENTS_FILE, DocumentStore
from swiftlet.manifest import read_manifest

SHARE, BATCH, RUSH, NEW_EVERY, ROUNDS, DELETES = 0.5, 100, 1000, 5, 20, 200
RECALL_LOSS, DELETE_SECONDS, TIMES_SLOWER, VISIBLE_SECONDS = 0.005, 0.01, 2.0, 1.0
_KEY = "write-key-of-the-load-test"
_QUIET_SECONDS, _SEED, _CHARACTERS = 20.0, 5, 300


class _Writer:
    """Gives each document the text of another one, in turn; one of `NEW_EVERY` gets a new id.

    `documents` are those that the index should have, by id.
    """

    def __init__(self, address: str, index: Path) -> None:
        store = DocumentStore(index / DOCUMENTS_FILE)
        stored = [store.document(each) for each in store.document_ids()]
        rows = [{"title": d.title, "text": d.text, "metadata": d.metadata} for d in stored]
        self.documents = {d.document_id: row for d, row in zip(stored, rows, strict=True)}
        self._others = cycle(random.Random(_SEED).sample(rows, len(rows)))
        self._address, self.batch = address, min(BATCH, len(rows))
        self.put_seconds: list[float] = []
        self.delete_seconds: list[float] = []
        self.not_found = 0

    def write(self, batches: int, seconds: float, stop: Event) -> None:
        """Write so many batches, evenly over `seconds`; a search must find each right after."""
        began = time.perf_counter()
        for number in range(batches):
            if stop.wait(max(0.0, began + number * seconds / batches - time.perf_counter())):
                break
            self.put_seconds.append(self.put(self.batch))
            self.not_found += not self.is_found(self._address)

    def put(self, count: int) -> float:
        """Put documents, then delete those that have new ids; the seconds of the put."""
        earlier = [*islice(self.documents, count)]
        ids = [f"{each}+" if n % NEW_EVERY == 0 else each for n, each in enumerate(earlier, 1)]
        for each in earlier:
            del self.documents[each]
        self.documents |= dict(zip(ids, self._others, strict=False))
        rows = [{"_id": each, **self.documents[each]} for each in ids]
        seconds = self._send("PUT", "/documents", {"documents": rows})
        for each in {*earlier} - {*ids}:
            self.delete_seconds.append(self._send("POST", "/documents/delete", {"ids": [each]}))
        return seconds

    def is_found(self, address: str) -> bool:
        """Whether a search at `address` finds the document that was put last."""
        document_id, row = next(reversed(self.documents.items()))
        query = str(row["text"] or row["title"])[:_CHARACTERS]
        _, answer = call(f"{address}/search", json.dumps({"query": query}).encode())
        return document_id in (hit["document_id"] for hit in json.loads(answer).get("hits", ()))

    def seconds_to_visible(self, address: str) -> float:
        """Seconds from the answer to a put until the service at `address` finds the document."""
        self.put(1)
        began = time.perf_counter()
        wait_until(lambda: self.is_found(address), "a document is not found")
        return time.perf_counter() - began

    def _send(self, method: str, path: str, body: object) -> float:
        content, began = json.dumps(body).encode(), time.perf_counter()
        status, answer = call(self._address + path, content, method=method, key=_KEY)
        if status != OK:
            raise LoadTestError(f"{method} {path} is answered {status}: {answer.decode()}")
        return time.perf_counter() - began


def churn(testbed: Testbed, minutes: float) -> dict[str, Any]:
    """Write as many documents as the index has while searches arrive at half the capacity."""
    folder, ended = testbed.folder / "served", Event()
    index = shutil.copytree(testbed.index, folder / "index")
    deletes = _library_deletes(shutil.copytree(index, testbed.folder / "deleted"))
    with ThreadPoolExecutor(1) as pool, testbed.serve(index, write_keys=_KEY) as service:
        writer = _Writer(service.address, index)
        parts = ceil(minutes)
        batches = ceil(len(writer.documents) / writer.batch / parts)
        works: dict[str, Callable[[Event], object]] = {
            "no writes": lambda stop: stop.wait(min(_QUIET_SECONDS, 12 * minutes)),
            f"{RUSH:,} documents at once": partial(writer.write, ceil(RUSH / writer.batch), 0.0),
        }
        steady = partial(writer.write, batches, 60 * minutes / parts)
        works |= {f"steady writes, {part} of {parts}": steady for part in range(1, parts + 1)}
        sampling = pool.submit(each_second, partial(_sample, service, folder), ended)
        loads = {}
        try:
            for name, work in works.items():
                # Measured again each time: the speed of a shared machine changes within minutes.
                rate = SHARE * testbed.capacity(service, testbed.requests)
                loads[name] = testbed.during(work, service, rate)[0]
        finally:
            ended.set()
        with testbed.serve(index) as second:
            visible = [writer.seconds_to_visible(second.address) for _ in range(ROUNDS)]
        merges = by_outcome(service, "swiftlet_merge_seconds_count")
    served, fresh, exact = _found(testbed, writer.documents)
    recalls, samples = [_overlap(each, exact) for each in (served, fresh)], sampling.result()
    lost = recalls[1] - recalls[0]
    quarter = max(1, len(samples) // 4)
    memory = [median(row[1] for row in samples[n:][:quarter]) for n in (quarter, -quarter)]
    quiet, rush, *_ = loads.values()
    failed = sum(len(each.measured) - each.statuses[OK] for each in loads.values())
    bounds = [
        at_most("recall@10 below that of a fresh build", lost, RECALL_LOSS, "{:.4f}".format),
        none_of("batches that the next search did not find", writer.not_found),
        at_most("until another service finds a put", max(visible), VISIBLE_SECONDS, milliseconds),
        none_of("searches not answered 200", failed),
        none_of("merges that failed", merges["failed"]),
        growth("resident memory, second and last quarter", *memory),
    ]
    for name, seconds in (("over HTTP", writer.delete_seconds), ("by the library", deletes)):
        p99 = percentile(np.array(seconds), 99)
        bounds.append(at_most(f"delete {name}, p99", p99, DELETE_SECONDS, milliseconds))
    for p in (50, 99):
        name, times = f"p{p} while {RUSH:,} documents come in", rush.latency(p) / quiet.latency(p)
        bounds.append(at_most(name, times, TIMES_SLOWER, "{:.2f} times that without writes".format))
    return {
        "minutes": minutes, "share": SHARE, "new_every": NEW_EVERY, "rounds": ROUNDS,
        "batch": writer.batch, "documents": len(writer.documents), "merges": merges,
        "put_seconds": spread(writer.put_seconds),
        "recalls": recalls, "overlap": _overlap(served, fresh),
        "searches": {
            name: {"offered": each.offered} | {f"p{p}": each.latency(p) / 1000 for p in (50, 99)}
            for name, each in loads.items()
        },
        "samples": samples, "bounds": bounds,
    }  # fmt: skip


def _library_deletes(index: Path) -> list[float]:
    ids = DocumentStore(index / DOCUMENTS_FILE).document_ids()[:DELETES]
    with swiftlet.write(index) as writer:
        return [timeit(partial(writer.delete, [each]), number=1) for each in ids]


def _sample(service: Service, folder: Path) -> tuple[int, int, int]:
    """Resident bytes of the service and of a merge, and bytes on the disk."""
    merging = sum(each.memory_info().rss for each in service.process.children(recursive=True))
    disk = sum(path.stat().st_size for path in folder.rglob("*"))
    return service.resident_bytes(), merging, disk


def _found(testbed: Testbed, documents: Mapping[str, Mapping[str, Any]]) -> list[list[list[str]]]:
    """The ids that each query finds by meaning: in the index, in a new one, and exactly."""
    found, rows = [], [{"_id": each, **row} for each, row in documents.items()]
    split = read_manifest(testbed.index, "index").details["splitting"]
    settings = {"passage_tokens": split["max_tokens"], "overlap_tokens": split["overlap_tokens"]}
    with pinned([*testbed.service_cores, *testbed.generator_cores]):
        for name, factory in (("served/index", None), ("fresh", None), ("exact", "Flat")):
            place = testbed.folder / name
            if not place.exists():
                swiftlet.build(rows, place, factory=factory, language=None, **settings)
            with swiftlet.open(place, encoder=testbed.encoder or DEFAULT_QUERY_ENCODER) as searcher:
                asked = (searcher.search(each, mode="dense") for each in testbed.queries)
                found.append([[hit.document_id for hit in hits] for hits in asked])
    return found


def _overlap(found: list[list[str]], expected: list[list[str]]) -> float:
    pairs = zip(found, expected, strict=True)
    return fmean(len({*some} & {*others}) / len(others) for some, others in pairs)
