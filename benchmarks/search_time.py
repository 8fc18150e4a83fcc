"""The processor time of a search in process, by mode and by stage, and how many rows it scores.

    python -m benchmarks.search_time --data DATA

Each collection is indexed by the look-up encoder, within a minute. With the arrays of postings and
without them, as in indexes of before, searches alternate in one run, on one thread.
"""

import os
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import swiftlet
from measuring.command_line import folder_with, script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, Figures, alternating, at_most, write
from swiftlet.corpora.collections import read_queries
from swiftlet.encoders import DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.index.lexical.index import TantivyQuery
from swiftlet.index.lexical.postings import FILES
from swiftlet.search.searcher import Searcher
from swiftlet.search.stages.state import SearchState, Stage

COLLECTIONS = {"boolq": "web-queries", "scifact": "scifact"}
"""The queries of each collection; few of those on the web are answered by it."""
ENCODERS = {"look-up": LOOKUP_QUERY_ENCODER, "two layers": DEFAULT_QUERY_ENCODER}
MODES = ("dense", "lexical", "hybrid")
SIDES = {True: "arrays", False: "tantivy"}


@dataclass
class Timed:
    """A stage whose processor time is added up, in microseconds."""

    stage: Stage
    spent: defaultdict[str, float]

    def run(self, search: SearchState) -> bool:
        """Run the stage; whether it had work."""
        began = time.thread_time()
        had_work = self.stage.run(search)
        self.spent[self.stage.name] += 1e6 * (time.thread_time() - began)
        return had_work

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stage, name)


def main() -> None:
    options = script_options(
        __doc__, data=folder_with(*COLLECTIONS, *COLLECTIONS.values()), queries=400, rounds=5,
        raw=RESULTS / "search-time.json",
    )  # fmt: skip
    found = {name: measured(name, options) for name in COLLECTIONS}
    bounds = []
    for each in found.values():
        times, size = each["times"]["look-up"]["arrays"], f"{each['passages']:,} passages"
        more = times["hybrid"]["ms"] - times["dense"]["ms"]
        bounds += [
            at_most(f"hybrid over dense, {size}, ms", more, 0.3, "{:.2f}".format),
            at_most(f"fetch, {size}, µs", times["hybrid"]["stages"]["fetch"], 60, "{:.0f}".format),
        ]
    first = next(iter(found.values()))["times"]["look-up"]["arrays"]["hybrid"]["ms"]
    bounds.append(at_most("hybrid with look-up, whole, ms", first, 0.6, "{:.2f}".format))
    machine = describe_machine(["faiss-cpu", "tantivy", "numpy"], threads="1")
    figures: Figures = {"template": "benchmarks/search_time.md.j2", "machine": machine}
    figures |= {"rounds": options.rounds, "load": os.getloadavg()[2]}
    print(write(options.raw, {**figures, "bounds": bounds, "collections": found}))


def measured(name: str, options: Any) -> Figures:
    """The figures of a collection, by encoder, side and mode."""
    asked = read_queries(options.data / COLLECTIONS[name])[: options.queries]
    queries = [each.text for each in asked]
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder, "index")
        swiftlet.build(options.data / name, index, encoder=LOOKUP_QUERY_ENCODER)
        size = sum((index / "lexical" / name).stat().st_size for name in FILES)
        times = {}
        for called, encoder in ENCODERS.items():
            with swiftlet.open(index, encoder=encoder) as searcher:
                times[called] = of_modes(searcher, queries, options.rounds)
                passages = searcher.num_passages
    return {
        "passages": passages,
        "from": COLLECTIONS[name],
        "queries": len(queries),
        "bytes_a_passage": size / passages,
        "times": times,
    }


def of_modes(searcher: Searcher, queries: Sequence[str], rounds: int) -> Figures:
    """The least time of all rounds of each mode, with arrays and without: other work only adds."""
    generation, words = searcher._generation, searcher.parts.lexical  # noqa: SLF001
    postings, stages = words.postings, generation._stages  # type: ignore[union-attr] # noqa: SLF001
    found: Figures = {side: {mode: {"ms": 1e9} for mode in MODES} for side in SIDES.values()}
    spent = defaultdict[str, float](float)
    timed = [Timed(stage, spent) for stage in stages]
    for has_arrays, mode in alternating([(s, m) for s in SIDES for m in MODES], rounds + 1):
        words.postings = postings if has_arrays else None  # type: ignore[union-attr]
        row = found[SIDES[has_arrays]][mode]
        row["ms"] = min(row["ms"], spent_on(searcher, queries, mode))
        generation._stages = timed  # noqa: SLF001
        spent.clear()
        spent_on(searcher, queries, mode)
        generation._stages = stages  # noqa: SLF001
        new = {name: microseconds / len(queries) for name, microseconds in spent.items()}
        row["stages"] = {name: min(new[name], row.get("stages", new)[name]) for name in new}
    words.postings = None  # type: ignore[union-attr]
    return {**found, "scored": scored_rows(searcher, queries)}


def spent_on(searcher: Searcher, queries: Sequence[str], mode: str) -> float:
    """The milliseconds of a search."""
    began = time.thread_time()
    for query in queries:
        searcher.search(query, mode=mode)
    return 1000 * (time.thread_time() - began) / len(queries)


def scored_rows(searcher: Searcher, queries: Sequence[str]) -> dict[str, float]:
    """How many rows that one side has found the other side scores in a hybrid search."""
    counts: Counter[str] = Counter()

    def counting(name: str, scores: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any) -> Any:
            counts[name] += len(given[-1])
            return scores(*given)

        return counted

    index, of_words = searcher.parts.index, TantivyQuery.scores
    index.scores = counting("dense", index.scores)  # type: ignore[method-assign]
    TantivyQuery.scores = counting("lexical", of_words)  # type: ignore[method-assign]
    spent_on(searcher, queries, "hybrid")
    TantivyQuery.scores = of_words  # type: ignore[method-assign]
    return {name: count / len(queries) for name, count in counts.items()}


if __name__ == "__main__":
    main()
