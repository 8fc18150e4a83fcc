"""What the encoders of a pair share: the five architectures of 003, three seeds each.

    python -m experiments.sharing --data DATA

DATA is the folder of the collections. Finished runs are kept in --work, and an interrupted
experiment goes on. Writes docs/results/sharing.json, its page and its picture. Takes about an hour
on 2 cores, one for each of two runs at a time.
"""

from collections.abc import Mapping
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

import numpy as np

from experiments import hybrid
from experiments.pairs import Pair
from measuring.command_line import script_options
from measuring.embedding_maps import EmbeddingPanel, plot_tsne
from measuring.machine import describe_machine
from measuring.results import RESULTS, Figures, write
from measuring.runs import measured
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER
from swiftlet.evaluation.metrics import evaluate
from swiftlet.evaluation.plots.figures import save_figure
from swiftlet.types import Embeddings

VARIANTS = {
    "SDE": {"sharing": "all", "projection": "shared"},
    "ADE": {"sharing": "none", "projection": "separate"},
    "ADE-STE": {"sharing": "token_embeddings", "projection": "separate"},
    "ADE-FTE": {"sharing": "frozen_token_embeddings", "projection": "separate"},
    "ADE-SPL": {"sharing": "none", "projection": "shared"},
}
SQUAD = "squad-dev-v1.1"
ZERO_SHOT = ("wikiqa", "boolq", "stackfaq")
# Table 2 of the paper: SQuAD.
PAPER = {
    "P@1": {"SDE": 70.13, "ADE": 60.39, "ADE-STE": 61.05, "ADE-FTE": 62.86, "ADE-SPL": 69.39},
    "MRR": {"SDE": 78.44, "ADE": 70.33, "ADE-STE": 70.85, "ADE-FTE": 72.18, "ADE-SPL": 77.65},
}
METRICS = ("P@1", "MRR@100")
SEEDS = (0, 1, 2)
SETTINGS: dict[str, Any] = {
    "optimiser": {
        "learning_rate": 2e-4,
        "projection_learning_rate": 1e-3,
        "batch_size": 64,
        "warmup_steps": 10,
        "precision": "bf16",
    },
    "negatives": {"samplers": ["in_batch"]},
    "fine_tuning": {"epochs": 1},
    "passages": {"tokens": 128, "truncate": True},
    "validation": {"queries": 100, "max_passages": 2000},
    "collapse": {"stop": False},
}
# One step that changes nothing. The others have the same towers and projections as ADE then.
BEFORE = "before training"
BEGUN = ("SDE", "ADE", "ADE-SPL")
NO_TRAINING: dict[str, Any] = {
    "optimiser": {"learning_rate": 1e-12, "projection_learning_rate": 1e-12},
    "fine_tuning": {"epochs": 0.001},
}
# A start that cannot search: the first token's output of two lower layers.
LOWER, LOWER_BEFORE = "two lower layers", "two lower layers, before training"
LOWER_TOWER = {"model": f"{DEFAULT_ENCODER}", "layers": [0, 1], "pooling": "cls"}
STATES: dict[str, dict[str, Any]] = {
    "": {},
    BEFORE: NO_TRAINING,
    LOWER: {"optimiser": {"learning_rate": 5e-4}},
    LOWER_BEFORE: NO_TRAINING,
}
_DRAWN, _NEIGHBOURS = 400, 10


def main() -> None:
    raw = RESULTS / "sharing.json"
    work = hybrid.WORK.with_name("sharing")
    options = script_options(__doc__, data=Path, work=work, jobs=2, raw=raw)
    runs: list[tuple[Any, ...]] = [(variant, seed) for seed in SEEDS for variant in VARIANTS]
    states = [state for state in STATES if state]
    runs += [(variant, *rest) for rest in product(SEEDS, states) for variant in BEGUN]
    measure = partial(figures_of, options.data.resolve(), options.work)
    found = measured(measure, runs, options.work, options.jobs)
    drawing = options.raw.with_suffix(".png")
    plot(options.work, drawing)
    of_variants = {
        variant: _means([found[variant, seed] for seed in SEEDS]) for variant in VARIANTS
    }
    figures = {
        "template": "experiments/sharing.md.j2",
        "plot": drawing.name,
        "machine": describe_machine(
            ["torch", "transformers", "onnxruntime"], threads=f"1 for each of {options.jobs} runs"
        ),
        "variants": of_variants,
        "states": {
            state: {
                variant: _means([found[variant, seed, state] for seed in SEEDS])["values"][SQUAD]
                for variant in BEGUN
            }
            for state in states
        },
        "settings": SETTINGS,
        "seeds": len(SEEDS),
        "paper": PAPER,
        "in_domain": SQUAD,
        "zero_shot": ZERO_SHOT,
    }
    print(write(options.raw, figures))


def figures_of(data: Path, work: Path, variant: str, seed: int, state: str = "") -> Figures:
    """The metrics on each collection, how mixed the embeddings are, and the processor time."""
    changes = STATES[state]
    start = LOWER_TOWER if state in {LOWER, LOWER_BEFORE} else {"model": f"{DEFAULT_QUERY_ENCODER}"}
    tower = {**start, "max_tokens": 128}
    content = {
        "recipe": "contrastive",
        "seed": seed,
        "data": [{"corpus": f"{data / SQUAD}", "qrels": "train"}],
        "query_encoder": tower,
        "document_encoder": tower,
        "dual_encoder": VARIANTS[variant],
        **SETTINGS,
        **{name: {**SETTINGS[name], **table} for name, table in changes.items()},
    }
    began = process_time()
    pair = Pair.trained(variant, content)
    figures: Figures = {"seconds": process_time() - began, "values": {}}
    for name in (SQUAD,) if state else (SQUAD, *ZERO_SHOT):
        embedded = pair.embedded(hybrid.collections(data)[name]())
        figures["values"][name] = evaluate(embedded.run(), embedded.collection.qrels, METRICS)
        if name == SQUAD:
            queries, documents = drawn(embedded.queries), drawn(embedded.documents)
            named = ", ".join((variant, f"{seed}", *filter(None, [state])))
            np.savez(work / f"{named}.npz", queries=queries, documents=documents)
            figures["mixed"] = mixed(queries, documents)
    return figures


def drawn(embeddings: Embeddings) -> Embeddings:
    """Some of the embeddings."""
    chosen = np.random.default_rng(0).choice(len(embeddings), _DRAWN, replace=False)
    return embeddings[np.sort(chosen)]


def mixed(queries: Embeddings, documents: Embeddings) -> float:
    """The share of the other kind among the ten nearest of each of n queries and n documents.

    It is about 0.5 if both are drawn alike, and 0 if they are two clusters.
    """
    points = np.concatenate((queries, documents))
    of_queries = np.arange(len(points)) < len(queries)
    scores = points @ points.T
    np.fill_diagonal(scores, -np.inf)
    nearest = np.argpartition(-scores, _NEIGHBOURS, axis=1)[:, :_NEIGHBOURS]
    return float((of_queries[nearest] != of_queries[:, np.newaxis]).mean())


def plot(work: Path, drawing: Path) -> None:
    """Draw t-SNE maps of the first seed, as in the paper's figure 2."""
    panels = []
    for variant in VARIANTS:
        points = np.load(work / f"{variant}, 0.npz")
        panels.append(EmbeddingPanel(variant, points["queries"], points["documents"]))
    save_figure(plot_tsne(panels), drawing)


def _means(runs: list[Figures]) -> Figures:
    """Means and half ranges over the seeds."""

    def spread(values: list[float]) -> Mapping[str, float]:
        half = (max(values) - min(values)) / 2
        return {"mean": fmean(values), "half": half, "least": min(values), "most": max(values)}

    collections = runs[0]["values"]
    return {
        "seconds": fmean(each["seconds"] for each in runs),
        "mixed": spread([each["mixed"] for each in runs]),
        "values": {
            name: {m: spread([each["values"][name][m] for each in runs]) for m in METRICS}
            for name in collections
        },
    }


if __name__ == "__main__":
    main()
