"""A plan for 10 million to a billion passages, from what was measured.

    python -m benchmarks.scale --index INDEX --queries QUERIES

INDEX stands for one shard: its searches are timed, one after the other on one thread. QUERIES is a
JSONL file of texts. The other figures are those of docs/results: index-scale, search, service and
engine. Writes docs/results/scale.json and its page. Takes a minute.
"""

import json
from math import ceil, sqrt
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from measuring.command_line import script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, Figures, write
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.index.vectors.faiss_index import SCANNED_UP_TO
from swiftlet.search.searcher import Searcher

SIZES = [10_000_000, 100_000_000, 1_000_000_000]
SHARDS = [1, 2, 4, 8, 16, 32, 64]
QUERIES, SEARCHES, DRAWS, LOAD = 300, 3_000, 20_000, 0.5
CORES, GIGABYTES, USED = 16, 64, 0.7
"""The machine of the plan, and the share of its memory that an index may take."""
CORE_HOUR, GIGABYTE_HOUR = 0.04, 0.005
"""What a core and a GB cost an hour, in dollars: an assumption."""
HOURS = 730  # a month
MOST_MS = 100.0


def main() -> None:
    options = script_options(__doc__, index=Path, queries=Path, raw=RESULTS / "scale.json")
    lines = options.queries.read_text("utf-8").splitlines()
    queries = [json.loads(line)["text"] for line in lines[:: max(1, len(lines) // QUERIES)]]
    passages, shard = measured(queries, options.index)
    known = {
        name: json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
        for name in ("index-scale", "search", "service", "engine")
    }
    rows = [each for each in known["index-scale"]["rows"] if each["default"] and not each["start"]]
    rates = known["search"]["kinds"]["AVX-512 VNNI"]["passages_a_second"]
    figures = {
        "template": "benchmarks/scale.md.j2",
        "machine": describe_machine(["faiss-cpu"], threads="1"),
        "passages": passages,
        "shard_ms": [round(each, 3) for each in shard],
        "assumed": {
            "cores": CORES,
            "gigabytes": GIGABYTES,
            "used": USED,
            "core_hour": CORE_HOUR,
            "gigabyte_hour": GIGABYTE_HOUR,
            "most_ms": MOST_MS,
        },
        "measured": [
            {
                "passages": row["passages"],
                "p50_ms": row["tuned"]["p50_ms"],
                "bytes": row["bytes_a_passage"],
                "recall": row["tuned"]["found"],
                "build_seconds": row["build_seconds"],
            }
            for row in rows
        ],
        # Two cores encoded these.
        "encoded_a_second": rates["swiftlet, int8, 6 layers"]["median"] / 2,
        "answer_ms": known["service"]["sections"]["Speed"]["http"]["dense"]["cpu_ms"]["median"],
        "engine": {
            "passages": known["engine"]["passages"],
            "median_ms": known["engine"]["searches"]["median_ms"]["client alone"],
            "cores": 2,
            "pushed_a_second": known["engine"]["passages"]
            / known["engine"]["push"]["seconds"]["Pushing passages"],
        },
    }
    figures |= planned(figures)
    print(write(options.raw, figures))


def measured(queries: list[str], index: Path) -> tuple[int, list[float]]:
    """The passages of an index, and milliseconds of searches by meaning, without encoding."""
    with Searcher.open(index, DEFAULT_QUERY_ENCODER) as searcher:
        embeddings = searcher.encoder.encode(queries)
        taken = []
        for number in range(SEARCHES + len(queries)):
            began = perf_counter()
            searcher.parts.index.search(embeddings[number % len(queries)], 40)
            taken.append(1000 * (perf_counter() - began))
    return searcher.num_passages, taken[len(queries) :]


def planned(figures: Figures) -> Figures:
    """The tables of the plan, from measured and assumed figures alone."""
    assumed, largest = figures["assumed"], figures["measured"][-1]
    room = assumed["used"] * assumed["gigabytes"] * 1e9
    most = int(room / largest["bytes"])
    month = HOURS * (
        assumed["cores"] * assumed["core_hour"] + assumed["gigabytes"] * assumed["gigabyte_hour"]
    )
    sizes = []
    for size in SIZES:
        machines, nodes = ceil(size / most), nodes_of(size, figures)
        own_ms = search_ms(min(size, most), figures)
        sizes.append(
            {
                "passages": size,
                "gigabytes": size * largest["bytes"] / 1e9,
                "encoding_core_hours": size / figures["encoded_a_second"] / 3600,
                "build_core_hours": size / largest["passages"] * largest["build_seconds"] / 3600,
                "fits": machines == 1,
                "search_ms": own_ms,
                "a_second": assumed["cores"] * 1000 / (own_ms + figures["answer_ms"]),
                "nodes": nodes,
                "node_ms": node_ms(size / nodes, figures),
                "push_hours": size / figures["engine"]["pushed_a_second"] / 3600,
                "month": month,
                "nodes_month": month * (nodes + 1),
            }
        )
    return {
        "most": most,
        "most_ms": search_ms(most, figures),
        "sizes": sizes,
        "load": LOAD,
        "tail": tail(figures),
    }


def search_ms(passages: int, figures: Figures) -> float:
    """The median of a search on one thread: a line below the size where lists begin, √n above."""
    rows = figures["measured"]
    scanned = [row for row in rows if row["passages"] <= SCANNED_UP_TO]
    if passages <= SCANNED_UP_TO:
        sizes, times = (np.array([row[name] for row in scanned]) for name in ("passages", "p50_ms"))
        return float(np.polyval(np.polyfit(sizes, times, 1), passages))
    return float(rows[-1]["p50_ms"] * sqrt(passages / rows[-1]["passages"]))


def node_ms(passages: float, figures: Figures) -> float:
    """The median of a search of one node of the engine, which searches segment after segment."""
    engine, cores = figures["engine"], figures["assumed"]["cores"]
    return float(engine["median_ms"] * passages / engine["passages"] * engine["cores"] / cores)


def nodes_of(size: int, figures: Figures) -> int:
    """The nodes that have the memory, and are fast enough.

    A row takes a byte for each dimension and as much again for its text and keys.
    """
    assumed = figures["assumed"]
    in_memory = size * 2 * 384 / (assumed["used"] * assumed["gigabytes"] * 1e9)
    nodes: float = max(in_memory, node_ms(size, figures) / assumed["most_ms"])
    return ceil(nodes)


def tail(figures: Figures) -> list[Figures]:
    """Latencies of searches that wait for all of several shards, drawn from those of a busy one.

    With hedging, a shard that has not answered within the 95th percentile is asked again
    elsewhere, and the first answer counts (Dean and Barroso, "The Tail at Scale", 2013).
    """
    random = np.random.default_rng(0)
    one = busy(np.array(figures["shard_ms"]), random)
    late = float(np.quantile(one, 0.95))

    def draws(shards: int) -> NDArray[np.float64]:
        return random.choice(one, (DRAWS, shards))

    rows = []
    for shards in SHARDS:
        plain, again = draws(shards), draws(shards)
        hedged = np.where(plain > late, np.minimum(plain, late + again), plain)
        row: Figures = {"shards": shards}
        for name, each in (("plain", plain), ("hedged", hedged)):
            p50, p99 = np.quantile(each.max(1), [0.5, 0.99]).tolist()
            row[name] = {"p50": p50, "p99": p99}
        rows.append(row)
    return rows


def busy(alone: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    """Latencies with the wait for earlier searches, which come at random times at half the load."""
    taken = random.choice(alone, DRAWS)
    gaps = random.exponential(alone.mean() / LOAD, DRAWS)
    found, wait = np.empty(DRAWS), 0.0
    for number, (own, gap) in enumerate(zip(taken, gaps, strict=True)):
        wait = max(0.0, wait - gap)
        found[number] = wait = wait + own
    return found


if __name__ == "__main__":
    main()
