"""Types of index from 100,000 to 10,000,000 passages: nDCG@10, latency, bytes, memory, build time.

    python -m benchmarks.index_scale --data ../shared/data --work DIR

Passages of real collections are encoded. Where there are too few, embeddings are generated: the sum
of a cluster's mean and of two of its embeddings' differences from it, divided by the root of two,
at unit length. So each cluster keeps its mean and covariance. Finished parts in DIR are used again.
It takes 60 GB and three hours on 2 cores. Writes docs/results/index-scale.json, page and plot.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from math import ceil
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.index_scale_data import BLOCK, SETTINGS, SPANS, Passages
from export.quality import METRIC
from measuring.command_line import script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, Figures, alternating, at_most, write
from measuring.runs import kept
from swiftlet.evaluation.plots.lines import Curve, Level, LinePanel, plot_lines
from swiftlet.index.vectors.faiss_index import EXACT_UP_TO, SCANNED_UP_TO, FaissIndex
from swiftlet.index.vectors.tuning import (
    NEAR,
    TARGET,
    TUNED_CANDIDATES,
    exact_rows,
    near_recall,
    tune,
)
from swiftlet.manifest import FileEntry
from swiftlet.processors import available_processors
from swiftlet.types import Embeddings

ROUNDS, LOSS = 5, 0.002
GOALS = {1_000_000: 0.6, 10_000_000: 2.0}  # milliseconds
MOST_BYTES, MOST_MEMORY, MOST_RELOAD = 450, 1.3, 3.0
RELOADED_BYTES = 10_000_000_000


def main() -> None:
    options = script_options(__doc__, data=Path, work=Path, raw=RESULTS / "index-scale.json")
    passages = Passages.prepared(options.data, options.work)
    rows = [
        {"size": number, **row}
        for number, size in enumerate(SETTINGS["sizes"])
        for row in measure(passages, size)
    ]
    defaults = [row for row in rows if row["default"] and not row["start"]]
    reload = kept(passages.work / "reload.json", partial(reloaded, passages, defaults[-1]))
    figures = {
        "template": "benchmarks/index_scale.md.j2",
        "machine": describe_machine(["faiss-cpu", "numpy"], threads="1 to search, all to build"),
        "settings": {name: SETTINGS[name] for name in ("passage_tokens", "clusters")},
        "real": passages.num_real,
        "judged": len(passages.qrels),
        "collections": [name for name, split in SETTINGS["collections"].items() if split],
        "target": TARGET,
        "near": NEAR,
        "most_loss": LOSS,
        "most_bytes": MOST_BYTES,
        "candidates": TUNED_CANDIDATES,
        "exact_up_to": EXACT_UP_TO,
        "scanned_up_to": SCANNED_UP_TO,
        "bounds": bounds_of(defaults, reload),
        "reload": reload,
        "rows": rows,
    }
    print(write(options.raw, figures))
    plot(defaults, options.raw.with_suffix(".svg"))


def bounds_of(defaults: Sequence[Figures], reload: Figures) -> list[Figures]:
    """The goals of the default types, by size, and of a reload."""
    found = []
    for row in defaults:
        goals: list[tuple[str, float, float, str]] = [
            (f"loss of {METRIC} as tuned", row["tuned"]["loss"], LOSS, "{:.4f}")
        ]
        if most := GOALS.get(row["passages"]):
            goals += [
                ("p50 as tuned, ms", row["tuned"]["p50_ms"], most, "{:.2f}"),
                (f"p50 at a loss of at most {LOSS}, ms", row["fast"]["p50_ms"], most, "{:.2f}"),
                ("bytes a passage", row["bytes_a_passage"], MOST_BYTES, "{:.0f}"),
                ("peak of memory in a build / size", row["memory"], MOST_MEMORY, "{:.2f}"),
            ]
        for name, measured, bound, form in goals:
            found.append(
                at_most(f"{row['passages']:,} passages: {name}", measured, bound, form.format)
            )
    seconds = reload["hash_seconds"] + reload["load_seconds"]
    return [*found, at_most("reload of 10 GB, s", seconds, MOST_RELOAD, "{:.1f}".format)]


def measure(passages: Passages, size: Mapping[str, Any]) -> list[Figures]:
    """The figures of each type at one size; at the end, all types take turns in rounds."""
    count = size["passages"] or passages.num_real
    start = round(passages.num_real * size.get("generated", 0))
    name = f"{count}-{start}"
    rows = passages.rows[start : start + count]
    queries = np.concatenate([passages.queries, passages.spans])
    nearest = passages.work / f"{name}.npy"
    if not nearest.exists():
        np.save(nearest, exact_rows(rows, queries, TUNED_CANDIDATES))
    exact = np.load(nearest)
    found = [
        (rows[places] @ query, places)
        for query, places in zip(passages.queries, exact, strict=False)
    ]
    best = passages.quality(found, start)
    indexes, measured = [], []
    for factory in size["types"]:
        path = passages.place(count, start, factory)
        row = kept(path.with_suffix(".json"), partial(build, factory, passages, start, count, path))
        index = FaissIndex.load(path.with_suffix(".faiss"))
        row |= kept(path.with_suffix(".opened.json"), partial(opened, path.with_suffix(".faiss")))
        row |= kept(
            path.with_suffix(".tuned.json"),
            partial(tuned, index, passages, exact[-SPANS:], start, best),
        )
        row |= {
            "passages": count,
            "start": start,
            "generated_share": max(0, start + count - passages.num_real) / count,
            "exact": best,
            "factory": factory,
            "default": factory == FaissIndex.default_factory(count, index.dim),
        }
        print({key: each for key, each in row.items() if key != "points"}, flush=True)
        indexes.append(index)
        measured.append(row)
    searched = partial(timed, indexes, measured, passages.queries, exact)
    times = kept(passages.work / f"{name}.times.json", searched)
    for row, each in zip(measured, times, strict=True):
        for kind, found in each.items():
            row[kind] |= found
    return measured


def build(factory: str, passages: Passages, start: int, count: int, path: Path) -> Figures:
    """Build an index in a process of its own, which reads embeddings block by block."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        source, dim = passages.work / "embeddings.f32", passages.queries.shape[1]
        arguments = factory, source, dim, start, count, path.with_suffix(".faiss")
        return pool.submit(built, *arguments).result()


def built(factory: str, source: Path, dim: int, start: int, count: int, path: Path) -> Figures:
    """Write the index of `count` rows of the file `source`; times, size, and peak of memory."""
    threads = available_processors()
    before, began = peak_bytes(), time.process_time()
    index = FaissIndex.create(factory, dim)
    chosen = np.zeros(count, dtype=bool)
    random = np.random.default_rng(0)
    chosen[random.choice(count, index.training_size(count), replace=False)] = True
    firsts = range(0, count, BLOCK)
    sample = np.concatenate(
        [
            block[chosen[first : first + BLOCK]]
            for first, block in zip(firsts, blocks(source, dim, start, count), strict=True)
        ]
    )
    index.train(sample, threads=threads)
    del sample
    trained = time.process_time() - began
    index.reserve(count)
    for block in blocks(source, dim, start, count):
        index.add(block, threads=threads)
    index.save(path)
    size_bytes = path.stat().st_size
    return {
        "train_seconds": trained,
        "build_seconds": time.process_time() - began,
        "bytes_a_passage": size_bytes / count,
        "memory": (peak_bytes() - before) / size_bytes,
    }


def blocks(source: Path, dim: int, start: int, count: int) -> Iterator[Embeddings]:
    """Blocks of `count` rows of a file from `start` on; mapped pages would count as memory."""
    with source.open("rb") as file:
        file.seek(4 * dim * start)
        for first in range(0, count, BLOCK):
            block = np.fromfile(file, np.float32, dim * min(BLOCK, count - first))
            yield block.reshape(-1, dim)


def peak_bytes() -> int:
    """The most memory of this program so far; `getrusage` also counts the program before it."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(status["VmHWM"].split()[0])


def opened(path: Path) -> Figures:
    """Seconds to hash and to load the file of an index that was read before, as a reload does."""
    FileEntry.of(path)
    began = time.perf_counter()
    FileEntry.of(path)
    hashed = time.perf_counter()
    FaissIndex.load(path)
    return {"hash_seconds": hashed - began, "load_seconds": time.perf_counter() - hashed}


def reloaded(passages: Passages, row: Figures) -> Figures:
    """The size of an index of 10 GB, trained as that of `row`, and the seconds to open it again."""
    path, num_rows = passages.work / "reload.faiss", row["passages"]
    if not path.exists():
        trained = passages.place(num_rows, 0, row["factory"]).with_suffix(".faiss")
        index = FaissIndex.load_trained(trained)
        count = ceil(RELOADED_BYTES / row["bytes_a_passage"])
        index.reserve(count)
        for first in range(0, count, num_rows):  # the same rows again and again
            source, wanted = passages.work / "embeddings.f32", min(num_rows, count - first)
            for block in blocks(source, index.dim, 0, wanted):
                index.add(block, threads=available_processors())
        index.save(path)
    # The first rounds bring the file into the page cache.
    found = sorted((opened(path) for _ in range(ROUNDS)), key=lambda each: sum(each.values()))
    return {"bytes": path.stat().st_size, **found[ROUNDS // 2]}


def tuned(
    index: FaissIndex, passages: Passages, nearest: np.ndarray, start: int, best: float
) -> Figures:
    """Tune as a build does; quality with these parameters, and with less thorough ones."""
    rows = passages.rows[start:]
    tune(index, rows, passages.spans[::2], nearest[::2])
    chosen = index.parameters
    points = []
    lower = [
        {max(1, getattr(chosen, name) // divisor) for divisor in (1, 2, 4, 8)}
        for name in ("probes", "refine_factor")
    ]
    for probes, refine_factor in product(*map(sorted, lower)):
        parameters = replace(chosen, probes=probes, refine_factor=refine_factor)
        index.parameters = parameters
        began = time.perf_counter()
        found = [index.search(query, TUNED_CANDIDATES) for query in passages.queries]
        seconds = time.perf_counter() - began
        points.append(
            {
                "probes": probes,
                "refine_factor": refine_factor,
                "mean_ms": 1000 * seconds / len(found),
                "loss": best - passages.quality(found, start),
                "found": near_recall(index, rows, passages.spans[1::2], nearest[1::2]),
                "is_tuned": parameters == chosen,
            }
        )
    last = next(point for point in points if point["is_tuned"])
    within = [point for point in points if point["loss"] <= LOSS] or [last]
    return {"points": points, "tuned": last, "fast": min(within, key=lambda each: each["mean_ms"])}


def timed(
    indexes: Sequence[FaissIndex],
    rows: Sequence[Figures],
    queries: Embeddings,
    exact: np.ndarray,
) -> list[dict[str, Figures]]:
    """The p50 and p99 in milliseconds and recall@10: as tuned, and as fast as the loss allows.

    :param exact: The nearest rows of each query (n, k), best first.
    """
    kinds = ("tuned", "fast")
    sides = [(number, kind) for number in range(len(rows)) for kind in kinds]
    ms: dict[tuple[int, str], list[float]] = {side: [] for side in sides}
    found: dict[tuple[int, str], list[float]] = {side: [] for side in sides}
    chosen = np.random.default_rng(0).permutation(len(queries))[:300]
    for number, kind in alternating(sides, ROUNDS):
        index, point = indexes[number], rows[number][kind]
        wanted = {name: point[name] for name in ("probes", "refine_factor")}
        index.parameters = replace(index.parameters, num_candidates=TUNED_CANDIDATES, **wanted)
        for query in chosen:
            began = time.perf_counter()
            _, nearest = index.search(queries[query], TUNED_CANDIDATES)
            ms[number, kind].append(1000 * (time.perf_counter() - began))
            found[number, kind].append(len(np.intersect1d(nearest[:10], exact[query, :10])) / 10)

    def of_side(side: tuple[int, str]) -> Figures:
        p50, p99 = np.percentile(ms[side], [50, 99]).tolist()
        return {"p50_ms": p50, "p99_ms": p99, "recall": fmean(found[side])}

    return [{kind: of_side((number, kind)) for kind in kinds} for number in range(len(rows))]


def plot(rows: Sequence[Figures], path: Path) -> None:
    """The p50 and the loss of the default types, by size."""
    sizes = np.array([row["passages"] for row in rows], dtype=float)
    kinds = {"as tuned": "tuned", f"loss at most {LOSS}": "fast"}
    panels = [
        LinePanel(
            label,
            [
                Curve(name, sizes, np.array([row[kind][value] for row in rows]))
                for name, kind in kinds.items()
            ],
            x_label="passages",
            markers=True,
            levels=levels,
        )
        for label, value, levels in (
            ("p50, ms", "p50_ms", ()),
            (f"loss of {METRIC}", "loss", [Level(LOSS, f"{LOSS}")]),
        )
    ]
    figure = plot_lines(panels)
    for axes in figure.axes:
        axes.set_xscale("log")
    figure.axes[0].set_yscale("log")
    figure.savefig(path)


if __name__ == "__main__":
    main()
