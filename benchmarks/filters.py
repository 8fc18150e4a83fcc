"""The time of searches with a filter, over that of searches without one.

    python -m benchmarks.filters --data ../shared/data --work WORK

Each document is made of three parts of a passage from a real collection. With the field "random", a
filter leaves a random share of the documents. With the field "far", it leaves the share that comes
last when the collection of the queries comes first, so it excludes everything near. Indexes in
--work are used again. The index of a million takes 20 minutes on 2 cores.
"""

import random
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import swiftlet
from measuring.command_line import script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, Figures, alternating, write
from swiftlet.corpora.collections import read_documents, read_queries
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.evaluation.plots.figures import save_figure
from swiftlet.evaluation.plots.lines import Curve, Level, LinePanel, plot_lines

COLLECTIONS = ["lisa", "medquad", "wiki-passages-2wiki", "wikiqa", "boolq", "squad-dev-v1.1"]
QUERIES_OF = "scifact"
SHARES = [1.0, 0.5, 0.1, 0.01, 0.001]
WORDS, TOP_K, QUERIES, ROUNDS, BOUND = 14, 10, 100, 6, 1.2
MODES, LONGER_MS = ("hybrid", "dense"), [0.35, 1.0]  # the bounds for both sizes


def main() -> None:
    options = script_options(
        __doc__, data=Path, work=Path, sizes=[20_000, 1_000_000], raw=RESULTS / "filters.json"
    )
    queries = [query.text for query in read_queries(options.data / QUERIES_OF)][:QUERIES]
    rows: list[Figures] = []
    for size in options.sizes:
        if not (index := options.work / f"{size}").exists():
            encoder = DEFAULT_QUERY_ENCODER  # in the same space, and three times as fast
            swiftlet.build(documents(options.data, size), index, encoder=encoder)
        rows += measure(index, queries)
    plot(rows, options.raw.with_suffix(".svg"))
    threads = "one for searching; all cores for building"
    packages = ["faiss-cpu", "tantivy", "numpy", "onnxruntime"]
    figures = {
        "template": "benchmarks/filters.md.j2",
        "machine": describe_machine(packages, threads=threads),
        "bound": BOUND,
        "longer_bounds": LONGER_MS,
        "top_k": TOP_K,
        "rows": rows,
    }
    print(write(options.raw, figures))


def documents(data: Path, size: int) -> Iterator[dict[str, Any]]:
    """Documents in the order of their collections, that of the queries last."""
    drawn = random.Random(0)
    texts = [
        words
        for name in [*COLLECTIONS, QUERIES_OF]
        for document in read_documents(data / name)
        if len(words := f"{document.title} {document.text}".split()[:400]) >= WORDS
    ]
    for number in range(size):
        words = texts[number * len(texts) // size]
        starts = [drawn.randrange(len(words) - WORDS + 1) for _ in range(3)]
        text = " ".join(word for start in starts for word in words[start : start + WORDS])
        fields = {"far": 1000 * number // size, "random": drawn.randrange(1000)}
        yield {"_id": f"{number}", "text": text, "metadata": fields}


def measure(index: Path, queries: list[str]) -> Iterator[Figures]:
    """A row for each mode, field and share; searches of all modes and filters alternate."""
    sides: list[Any] = [*product(MODES, [None], [1.0]), *product(MODES, ["random", "far"], SHARES)]
    times: dict[Any, list[float]] = {side: [] for side in sides}
    first, fewest = dict[Any, float](), dict[Any, int]()
    with swiftlet.open(index) as searcher:
        for side in alternating(sides, ROUNDS + 1):
            some, fewest[side] = searches(searcher, side, queries)
            if first.setdefault(side, some[0]) != some[0]:  # the first round warms up
                times[side] += some
    whole = {mode: median(times[mode, None, 1.0]) for mode in MODES}
    for mode, field, share in sides[len(MODES) :]:
        filtered = median(times[mode, field, share])
        yield {
            "passages": searcher.num_passages, "mode": mode, "field": field, "share": share,
            "whole_ms": whole[mode], "filtered_ms": filtered, "ratio": filtered / whole[mode],
            "first_ms": first[mode, field, share], "fewest": fewest[mode, field, share],
            "longer_ms": whole["hybrid"] - whole["dense"],
        }  # fmt: skip


def searches(searcher: swiftlet.Searcher, side: Any, queries: list[str]) -> tuple[list[float], int]:
    """The milliseconds of each search, and the fewest documents that one has found."""
    milliseconds, counts = [], []
    mode, field, share = side
    filter_ = {field: {"lt": 1000 * share}} if field else None
    for query in queries:
        began = time.perf_counter()
        found = searcher.search(query, TOP_K, mode=mode, filter=filter_)
        milliseconds.append(1000 * (time.perf_counter() - began))
        counts.append(len(found))
    return milliseconds, min(counts)


def plot(rows: list[Figures], path: Path) -> None:
    panels = []
    for passages in dict.fromkeys(row["passages"] for row in rows):
        curves: dict[str, list[tuple[float, float]]] = {}
        for row in rows:
            if row["passages"] == passages:
                name = f"{row['mode']}, {row['field']}"
                curves.setdefault(name, []).append((100 * row["share"], row["ratio"]))
        lines = [Curve(name, *np.array(points).T) for name, points in curves.items()]
        panels.append(
            LinePanel(
                "p50 over that without filter", lines, "documents that pass, %",
                f"{passages:,} passages", [Level(BOUND, "bound")], markers=True, y_limits=(0, None),
            )
        )  # fmt: skip
    figure = plot_lines(panels)
    for axes in figure.axes:
        axes.set_xscale("log")
    save_figure(figure, path)


if __name__ == "__main__":
    main()
