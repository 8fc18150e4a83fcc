"""Re-rankers trained by the recipe, over hybrid search.

    python -m experiments.reranking --data DATA

A seed takes about an hour and a half of one core.
"""

import json
from argparse import Namespace
from collections.abc import Sequence
from itertools import islice
from math import inf
from pathlib import Path
from statistics import fmean, median
from time import perf_counter, process_time
from typing import Any

import swiftlet
from experiments.indexes import METRIC, collections, folder_of, index_of, values_of
from export.reranker_directory import export_reranker
from measuring.experiment import Experiment, Found, Run, Stages, name_of, settings_beside
from measuring.results import ROOT, Figures, by_query, over_seeds
from swiftlet.evaluation.significance import paired_t_test
from training.model.trained import MODEL
from training.recipes.overrides import read_tables
from training.recipes.settings import parse_tables
from training.reranking.settings import RerankerRecipe
from training.reranking.train import train_reranker

# The re-ranker of each target begins with that of the one before it, the first with the encoder
# that ships.
TARGETS: dict[str, dict[str, Any]] = settings_beside(__file__)["targets"]
SETTINGS: dict[str, Any] = settings_beside(__file__)["settings"]
RECIPE = ROOT / "training" / "recipes" / "reranker.toml"
TOP_N, DEADLINE_SECONDS, MOST, GOAL, TIMED_QUERIES = 20, 0.05, 100, 0.03, 50
EXPERIMENT = Experiment(
    "reranking", __doc__, [*TARGETS], ["torch", "onnxruntime", "tantivy"], seeds=3, jobs=2
)


def runs(options: Namespace) -> list[list[Run]]:
    return [[(target, seed) for seed in range(options.seeds)] for target in TARGETS]


def figures_of(options: Namespace, target: str, seed: int) -> Figures:
    """Train, export and measure the re-ranker of a target."""
    corpus, folder = options.data / target, options.work / name_of((target, seed))
    test = collections(options.data)[target]()
    index = index_of(folder_of(options, target), test)
    given = {"index": index, "data.0.queries": corpus, "seed": seed, **SETTINGS, **TARGETS[target]}
    given["data.0.qrels"] = corpus / "qrels" / "train.tsv"
    if before := [*TARGETS][: [*TARGETS].index(target)]:
        given["cross_encoder.model"] = options.work / name_of((before[-1], seed)) / "run" / MODEL
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
    values = {
        "hybrid": values_of(index, None, test, METRIC),
        "re-ranked": values_of(index, None, test, METRIC, reranker=reranker, rerank=TOP_N),
    }
    cost = cost_of(index, reranker, [query.text for query in test.queries])
    return {"seconds": evaluated["seconds"], "held_out": held_out, "values": values, **cost}


def cost_of(index: Path, reranker: Path, queries: Sequence[str]) -> Figures:
    """Milliseconds a pair on one thread, and the pairs that are scored within the deadline."""
    searches: list[float] = []
    pairs: list[int] = []
    with swiftlet.open(index, reranker=reranker) as searcher:
        for query in islice(queries, TIMED_QUERIES):
            began = process_time()
            searcher.search(query, TOP_N)
            between = process_time()
            searcher.search(query, TOP_N, rerank=TOP_N, deadline=inf)
            searches.append((process_time() - between) - (between - began))
            deadline = perf_counter() + DEADLINE_SECONDS
            pairs.append(searcher.search(query, MOST, rerank=MOST, deadline=deadline).num_reranked)
    return {"ms_a_pair": 1000 * median(searches) / TOP_N, "pairs": median(pairs)}


def collected(_options: Namespace, found: Found) -> Figures:
    targets = {
        target: _of_target([each for (name, _), each in found.items() if name == target])
        for target in TARGETS
    }
    return {
        "targets": targets,
        "recipe": RECIPE.name,
        "of_targets": TARGETS,
        "settings": SETTINGS,
        "top_n": TOP_N,
        "goal": GOAL,
        "deadline_ms": 1000 * DEADLINE_SECONDS,
        "most": MOST,
    }


def _of_target(runs: Sequence[Figures]) -> Figures:
    """Means over the seeds, and a test of the mean of each query against the search."""
    before = runs[0]["values"]["hybrid"]
    after = [each["values"]["re-ranked"] for each in runs]
    held_out = [each["held_out"] for each in runs]
    return {
        "queries": len(before),
        "seeds": len(runs),
        "hybrid": fmean(before.values()),
        **over_seeds([fmean(each.values()) for each in after]),
        "p": paired_t_test(by_query(after), before).p_value,
        "weights": [each["weight"] for each in held_out],
        "held_out_gain": fmean(each["ndcg@10"] - each["searched_ndcg@10"] for each in held_out),
        "minutes": fmean(each["seconds"] for each in runs) / 60,
        **{name: fmean(each[name] for each in runs) for name in ("ms_a_pair", "pairs")},
    }


if __name__ == "__main__":
    EXPERIMENT.main(runs, figures_of, collected)
