"""What the encoders of a pair share: the five architectures of 003, three seeds each.

    python -m experiments.sharing --data DATA

Takes about an hour on 2 cores, one for each of two runs at a time.
"""

from argparse import Namespace
from itertools import product
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

import numpy as np

from experiments.indexes import collections
from experiments.pairs import Pair, mixed
from measuring.experiment import Experiment, Found, Run, laid_over, name_of, settings_beside
from measuring.plots import EmbeddingPanel, plot_tsne, save_figure
from measuring.results import Figures, over_seeds
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER
from swiftlet.evaluation.metrics import evaluate
from swiftlet.types import Embeddings

SETTINGS = settings_beside(__file__)
SQUAD: str = SETTINGS["in_domain"]
ZERO_SHOT: list[str] = SETTINGS["zero_shot"]
METRICS: list[str] = SETTINGS["metrics"]
VARIANTS: dict[str, dict[str, Any]] = SETTINGS["variants"]
BEGUN: list[str] = SETTINGS["begun"]
STATES: dict[str, dict[str, Any]] = SETTINGS["states"]
LOWER_TOWER = {"model": f"{DEFAULT_ENCODER}", "layers": [0, 1], "pooling": "cls"}
EXPERIMENT = Experiment(
    "sharing", __doc__, [SQUAD, *ZERO_SHOT], ["torch", "transformers", "onnxruntime"],
    seeds=3, jobs=2,
)  # fmt: skip
_DRAWN, _NEIGHBOURS = 400, 10


def runs(options: Namespace) -> list[list[Run]]:
    seeds = range(options.seeds)
    trained = [(variant, seed) for seed in seeds for variant in VARIANTS]
    return [[*trained, *((name, *rest) for rest in product(seeds, STATES) for name in BEGUN)]]


def figures_of(options: Namespace, variant: str, seed: int, state: str = "") -> Figures:
    """The metrics on each collection, how mixed the embeddings are, and the processor time."""
    lower = state.startswith("two lower layers")
    start = LOWER_TOWER if lower else {"model": f"{DEFAULT_QUERY_ENCODER}"}
    tower = {**start, "max_tokens": 128}
    recipe = {
        "recipe": "contrastive",
        "seed": seed,
        "data": [{"corpus": f"{options.data / SQUAD}", "qrels": "train"}],
        "query_encoder": tower,
        "document_encoder": tower,
        "dual_encoder": VARIANTS[variant],
        **laid_over(SETTINGS["settings"], STATES.get(state, {})),
    }
    began = process_time()
    pair = Pair.trained(variant, recipe)
    figures: Figures = {"seconds": process_time() - began, "values": {}}
    for name in (SQUAD,) if state else (SQUAD, *ZERO_SHOT):
        collection = collections(options.data)[name]()
        found, *embeddings = pair.run(collection)
        figures["values"][name] = evaluate(found, collection.qrels, METRICS)
        if name == SQUAD:
            queries, documents = map(drawn, embeddings)
            run = (variant, seed, state) if state else (variant, seed)
            np.savez(options.work / f"{name_of(run)}.npz", queries=queries, documents=documents)
            figures["mixed"] = mixed(queries, documents, _NEIGHBOURS)
    return figures


def drawn(embeddings: Embeddings) -> Embeddings:
    """Some of the embeddings."""
    count = min(_DRAWN, len(embeddings))
    return embeddings[np.sort(np.random.default_rng(0).choice(len(embeddings), count, False))]


def collected(options: Namespace, found: Found) -> Figures:
    def means(*names: str) -> Figures:
        variant, *state = names
        runs = [found[variant, seed, *state] for seed in range(options.seeds)]
        return {
            "seconds": fmean(each["seconds"] for each in runs),
            "mixed": over_seeds([each["mixed"] for each in runs]),
            "values": {
                name: {m: over_seeds([each["values"][name][m] for each in runs]) for m in METRICS}
                for name in runs[0]["values"]
            },
        }

    return {
        "plot": "sharing.png",
        "variants": {variant: means(variant) for variant in VARIANTS},
        "states": {
            state: {name: means(name, state)["values"][SQUAD] for name in BEGUN} for state in STATES
        },
        "seeds": options.seeds,
        **{name: SETTINGS[name] for name in ("settings", "paper", "in_domain", "zero_shot")},
    }


def draw(work: Path, figures: Figures, folder: Path) -> None:
    """Draw t-SNE maps of the first seed, as in the paper's figure 2."""
    panels = []
    for variant in VARIANTS:
        points = np.load(work / f"{variant}, 0.npz")
        panels.append(EmbeddingPanel(variant, points["queries"], points["documents"]))
    save_figure(plot_tsne(panels), folder / figures["plot"])


if __name__ == "__main__":
    EXPERIMENT.main(runs, figures_of, collected, draw)
