"""Measures gradient caching against CachedMultipleNegativesRankingLoss, on the same batches.

    python -m benchmarks.gradient_caching --data DATA

DATA is as for experiments/hybrid.py. Both sides begin with the same weights, and have the same
optimiser. Writes a section of docs/results/training-peers.json and its page. It takes five minutes
of one core.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss

from measuring.command_line import script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, spread, write_section
from swiftlet.encoders import torch_weights
from swiftlet.progress import Silence
from training.contrastive.batch_encoder import BatchEncoder
from training.contrastive.validator import Validator
from training.inputs import load_data, make_dual_encoder, make_loss, make_step
from training.loop.devices import make_accelerator
from training.loop.optimisation import Optimisation
from training.recipes.settings import parse_recipe

COLLECTION, SPLIT, BATCHES = "squad-dev-v1.1", "train", 8
LEARNING_RATE, LAYERS = 1e-4, (0, 5)
RECIPE: dict[str, Any] = {
    "recipe": "contrastive",
    "dual_encoder": {"projection": "none", "sharing": "all"},
    "passages": {"tokens": 64, "truncate": True},
    "validation": {"queries": 150, "max_passages": 500},
    "negatives": {"samplers": ["in_batch"]},
    "optimiser": {"learning_rate": LEARNING_RATE, "batch_size": 64, "micro_batch_size": 16},
}
OURS, THEIRS = "Swiftlet", "Sentence Transformers"
PACKAGES = ["torch", "sentence-transformers", "transformers", "accelerate"]
Measured = tuple[float, float]
"""Processor seconds of the training, and nDCG@10 after it."""


def main() -> None:
    options = script_options(__doc__, data=Path, seeds=3, raw=RESULTS / "training-peers.json")
    torch.set_num_threads(1)
    corpus, runs = options.data / COLLECTION, list[dict[str, Measured]]()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seeds):
            runs.append(contrastive(corpus, Path(folder), seed))
            print(seed, runs[-1], flush=True)
    figures = {
        "template": "benchmarks/training_peers.md.j2",
        "made_by": "gradient_caching",
        "machine": describe_machine(PACKAGES, threads="1"),
        "collection": f"{COLLECTION} {SPLIT}",
        "batches": BATCHES,
        "settings": RECIPE,
        "seeds": options.seeds,
        "sides": {
            side: {
                name: spread([run[side][place] for run in runs])
                for place, name in enumerate(("seconds", "ndcg"))
            }
            for side in (OURS, THEIRS)
        },
    }
    title = "Our training beside Sentence Transformers"
    print(write_section(options.raw, title, "Gradient caching", figures))


def contrastive(corpus: Path, folder: Path, seed: int) -> dict[str, Measured]:
    """A pair with one tower, by both sides."""
    model = {"model": str(torch_weights()), "layers": LAYERS, "pooling": "mean", "max_tokens": 64}
    towers = {f"{tower}_encoder": model for tower in ("query", "document")}
    data = {"data": [{"corpus": str(corpus), "qrels": SPLIT}], "seed": seed}
    recipe = parse_recipe(RECIPE | towers | data, "the benchmark")

    def measured(side: str) -> Measured:
        torch.manual_seed(seed)
        pair = make_dual_encoder(recipe).train()  # with dropout
        training, validation = load_data(recipe, pair.document_tower, folder, Silence())
        encoder = BatchEncoder(pair, make_accelerator("fp32", 2), micro_batch_size=16)
        step: Callable[[Any], object]
        step = make_step(recipe, training, encoder, make_loss(recipe, training, encoder), None)
        if side == THEIRS:
            whole = pair.document_tower.with_projection(None)
            loss = CachedMultipleNegativesRankingLoss(whole, scale=20.0, mini_batch_size=16)

            def step(pairs: Any) -> None:
                texts = training.passages.texts(pairs[:, 1])
                asked = [training.queries[number] for number in pairs[:, 0]]
                features = [whole.preprocess(each) for each in (asked, texts)]
                loss(features, torch.empty(0)).backward()

        # With a passage once in a batch, both losses are the same.
        order = np.random.default_rng(seed).permutation(len(training.pairs))
        _, first = np.unique(training.pairs[order, 1], return_index=True)
        chosen = training.pairs[order[np.sort(first)]]
        batches = np.array_split(chosen, range(64, len(chosen), 64))[:BATCHES]
        parts = [([*pair.document_tower.parameters()], LEARNING_RATE)]
        accelerator = encoder.accelerator
        optimisation = Optimisation(parts, recipe.optimiser, len(batches), accelerator)
        began = process_time()
        for batch in batches:
            step(batch)
            optimisation.step()
        return process_time() - began, Validator(validation, 150).quality(encoder)["nDCG@10"]

    return {side: measured(side) for side in (OURS, THEIRS)}


if __name__ == "__main__":
    main()
