"""Re-rankers trained by the recipe, over hybrid search.

    python -m experiments.reranking --data DATA

DATA and --work are as for experiments/hybrid.py; its indexes are used again. Runs are kept in
--runs, and an interrupted one goes on. With --seeds 1, only the first seed is run. Writes
docs/results/reranking.json and its page. A seed takes about an hour and a half of one core.
"""

import json
from collections.abc import Sequence
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path
from statistics import fmean, median
from time import perf_counter, process_time
from typing import Any

import swiftlet
from experiments import hybrid
from experiments.adaptation import Stages
from export.quality import Collection
from export.reranker_directory import export_reranker
from measuring.command_line import script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, Figures, write
from measuring.runs import kept, measured
from swiftlet.evaluation.experiment import run_queries
from swiftlet.evaluation.metrics import evaluate_per_query
from swiftlet.evaluation.retrievers import SearcherRetriever
from swiftlet.evaluation.significance import paired_t_test
from training.model.trained import MODEL
from training.recipes.settings import parse_tables, read_tables
from training.reranking.settings import RerankerRecipe
from training.reranking.train import train_reranker

# They have 6,105 and about 650 queries that the search answers, to learn from. The re-ranker of
# each begins with that of the one before it, the first with the encoder that ships.
TARGETS: dict[str, dict[str, Any]] = {
    "squad-dev-v1.1": {"epochs": 1},
    "qmsum": {"epochs": 2, "optimiser.learning_rate": 2e-5, "average": 0.5},
}
RECIPE = Path(__file__).parents[1] / "training" / "recipes" / "reranker.toml"
SETTINGS = {"optimiser.precision": "bf16"}
METRIC, TOP_N, DEADLINE_SECONDS, MOST = "nDCG@10", 20, 0.05, 100
GOAL = 0.03
TIMED_QUERIES = 50


def main() -> None:
    raw, runs = RESULTS / "reranking.json", hybrid.WORK.with_name("reranking")
    options = script_options(
        __doc__, data=Path, work=hybrid.WORK, runs=runs, seeds=3, jobs=2, raw=raw
    )
    seeds = [(seed,) for seed in range(options.seeds)]
    measure = partial(figures_of, options.data.resolve(), options.work, options.runs.resolve())
    found = measured(measure, seeds, options.runs, options.jobs)
    print(write(options.raw, collected([*found.values()], options.jobs)))


def collected(found: Sequence[Figures], jobs: int) -> Figures:
    """The figures of a page from those of the seeds."""
    threads = f"1 for each of {jobs} runs at a time"
    return {
        "template": "experiments/reranking.md.j2",
        "machine": describe_machine(["torch", "onnxruntime", "tantivy"], threads=threads),
        "targets": {target: _of_target([each[target] for each in found]) for target in TARGETS},
        "recipe": RECIPE.name,
        "of_targets": TARGETS,
        "settings": SETTINGS,
        "top_n": TOP_N,
        "goal": GOAL,
        "deadline_ms": 1000 * DEADLINE_SECONDS,
        "most": MOST,
    }


def figures_of(data: Path, work: Path, runs: Path, seed: int) -> Figures:
    """Train, export and measure the re-ranker of each target."""
    figures: Figures = {}
    start: dict[str, Path] = {}
    for target in TARGETS:
        folder = runs / f"{target}, {seed}"
        measure = partial(_figures_of, data / target, work, folder, seed, start)
        figures[target] = kept(folder / "figures.json", measure)
        start = {"cross_encoder.model": folder / "run" / MODEL}
    return figures


def _figures_of(
    corpus: Path, work: Path, folder: Path, seed: int, start: dict[str, Path]
) -> Figures:
    test = hybrid.collections(corpus.parent)[corpus.name]()
    index = hybrid.index_of(work / corpus.name, test)
    given = {"index": index, "data.0.queries": corpus, "seed": seed, **SETTINGS, **start}
    given |= TARGETS[corpus.name]
    given["data.0.qrels"] = corpus / "qrels" / "train.tsv"
    tables = read_tables(RECIPE, [f"{name}={value}" for name, value in given.items()])
    if not (folder / "run" / "manifest.json").exists():
        recipe = parse_tables(RerankerRecipe, tables, RECIPE.name)
        train_reranker(recipe, folder / "run", resume=True, progress=Stages())
    text = (folder / "run" / "metrics.jsonl").read_text("utf-8")
    *_, evaluated, ended = (
        each for each in map(json.loads, text.splitlines()) if each["kind"] in {"evaluation", "end"}
    )
    held_out = {name: ended[name] for name in ("weight", "ndcg@10", "searched_ndcg@10")}
    reranker = folder / "reranker"
    export_reranker(folder / "run" / MODEL, reranker, precisions=["int8"], overwrite=True)
    values = {"hybrid": values_of(index, None, test), "re-ranked": values_of(index, reranker, test)}
    cost = cost_of(index, reranker, test)
    return {"seconds": evaluated["seconds"], "held_out": held_out, "values": values, **cost}


def values_of(index: Path, reranker: Path | None, test: Collection) -> dict[str, float]:
    """The nDCG@10 of each query."""
    fields = {} if reranker is None else {"rerank": TOP_N}
    with swiftlet.open(index, reranker=reranker) as searcher:
        run = run_queries(SearcherRetriever(searcher, **fields), test.queries, top_k=10)
    return evaluate_per_query(run, test.qrels, [METRIC])[METRIC]


def cost_of(index: Path, reranker: Path, test: Collection) -> Figures:
    """Milliseconds a pair on one thread, and the pairs that are scored within the deadline."""
    searches: list[float] = []
    pairs: list[int] = []
    with swiftlet.open(index, reranker=reranker) as searcher:
        for query in islice(test.queries, TIMED_QUERIES):
            began = process_time()
            searcher.search(query.text, TOP_N)
            between = process_time()
            searcher.search(query.text, TOP_N, rerank=TOP_N, deadline=inf)
            searches.append((process_time() - between) - (between - began))
            deadline = perf_counter() + DEADLINE_SECONDS
            pairs.append(
                searcher.search(query.text, MOST, rerank=MOST, deadline=deadline).num_reranked
            )
    return {"ms_a_pair": 1000 * median(searches) / TOP_N, "pairs": median(pairs)}


def _of_target(runs: Sequence[Figures]) -> Figures:
    """Means over the seeds, and a test of the mean of each query against the search."""
    before = runs[0]["values"]["hybrid"]
    means = [fmean(each["values"]["re-ranked"].values()) for each in runs]
    after = {query: fmean(each["values"]["re-ranked"][query] for each in runs) for query in before}
    return {
        "queries": len(before),
        "seeds": len(runs),
        "hybrid": fmean(before.values()),
        "mean": fmean(means),
        "half": (max(means) - min(means)) / 2,
        "p": paired_t_test(after, before).p_value,
        "weights": [each["held_out"]["weight"] for each in runs],
        "held_out_gain": fmean(
            each["held_out"]["ndcg@10"] - each["held_out"]["searched_ndcg@10"] for each in runs
        ),
        "minutes": fmean(each["seconds"] for each in runs) / 60,
        "ms_a_pair": fmean(each["ms_a_pair"] for each in runs),
        "pairs": fmean(each["pairs"] for each in runs),
    }


if __name__ == "__main__":
    main()
