"""Measures our training against that of Sentence Transformers, on the same batches.

    python -m benchmarks.training_peers --data DATA

DATA is as for experiments/hybrid.py. Gradient caching is measured against
CachedMultipleNegativesRankingLoss, and the training of a re-ranker against CrossEncoderTrainer with
ListNetLoss. Each side begins with the same weights, and both have the same optimiser. Writes
docs/results/training-peers.json and its page. It takes about ten minutes of one core.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import CrossEncoder as TheirCrossEncoder
from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.cross_encoder.losses import ListNetLoss
from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss

import swiftlet
from measuring.command_line import script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, Figures, write
from swiftlet.encoders import torch_weights
from swiftlet.progress import Silence
from training.inputs import load_data, make_dual_encoder, make_loss, make_step
from training.loop.batch_encoder import BatchEncoder
from training.loop.devices import make_accelerator
from training.loop.optimisation import Optimisation, Optimiser
from training.loop.validator import Validator
from training.model.cross_encoder import CrossEncoder
from training.model.towers import TowerSettings
from training.recipes.settings import parse_recipe, parse_tables
from training.reranking.groups import Group, find_groups
from training.reranking.settings import RerankerRecipe
from training.reranking.task import RerankingTask

COLLECTION, SPLIT, STEPS = "squad-dev-v1.1", "train", 40
CONTRASTIVE: dict[str, Any] = {
    "recipe": "contrastive",
    "dual_encoder": {"projection": "none", "sharing": "all"},
    "passages": {"tokens": 64, "truncate": True},
    "validation": {"queries": 300},
    "negatives": {"samplers": ["in_batch"]},
    "optimiser": {"learning_rate": 1e-4, "batch_size": 64, "micro_batch_size": 16},
}
RERANKER: dict[str, Any] = {
    "recipe": "cross-encoder",
    "candidates": {"depth": 20, "negatives": 5},
    "validation": {"queries": 200},
    "optimiser": {"learning_rate": 1e-4, "batch_size": 16},
}
Batches = Sequence[Any]


class Quiet(Silence):
    """Shows no progress."""

    def describe(self, text: str) -> None:
        """Show nothing."""


def main() -> None:
    options = script_options(__doc__, data=Path, seeds=3, raw=RESULTS / "training-peers.json")
    torch.set_num_threads(1)
    corpus = options.data / COLLECTION
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        swiftlet.build(corpus, Path(folder) / "index")
        for seed in range(options.seeds):
            for of_method in (contrastive, reranking):
                for side, figures in of_method(corpus, Path(folder), seed).items():
                    print(of_method.__name__, side, figures, flush=True)
                    found.setdefault(of_method.__name__, {}).setdefault(side, []).append(figures)
    packages = ["torch", "sentence-transformers", "transformers", "accelerate"]
    page: Figures = {
        "template": "benchmarks/training_peers.md.j2",
        "machine": describe_machine(packages, threads="1"),
        "collection": f"{COLLECTION} {SPLIT}",
        "steps": STEPS,
        "settings": {"contrastive": CONTRASTIVE, "reranking": RERANKER},
        "methods": found,
    }
    print(write(options.raw, page))


def contrastive(corpus: Path, folder: Path, seed: int) -> dict[str, tuple[float, float]]:
    """Processor seconds of the steps, and nDCG@10 after them, of both sides."""
    model = {"model": str(torch_weights()), "layers": [0, 5], "pooling": "mean", "max_tokens": 64}
    towers = {f"{tower}_encoder": model for tower in ("query", "document")}
    data = {"data": [{"corpus": str(corpus), "qrels": SPLIT}], "seed": seed}
    recipe = parse_recipe(CONTRASTIVE | towers | data, "the benchmark")

    def measured(theirs: bool) -> tuple[float, float]:
        accelerator = make_accelerator("fp32", 2)
        torch.manual_seed(seed)
        pair = make_dual_encoder(recipe)
        training, validation = load_data(recipe, pair.document_tower, folder, Quiet())
        encoder = BatchEncoder(pair, accelerator, micro_batch_size=16)
        ours = make_step(recipe, training, encoder, make_loss(recipe, training, encoder), None)
        model = pair.document_tower.with_projection(None).train()
        loss = CachedMultipleNegativesRankingLoss(model, scale=20.0, mini_batch_size=16)

        def step(pairs: np.ndarray[Any, Any]) -> None:
            if not theirs:
                ours(pairs)
                return
            texts = [training.queries[n] for n in pairs[:, 0]], training.passages.texts(pairs[:, 1])
            loss([model.tokenize(each) for each in texts], torch.empty(0)).backward()

        # With a passage once in a batch, both losses are the same.
        order = np.random.default_rng(seed).permutation(len(training.pairs))
        _, first = np.unique(training.pairs[order, 1], return_index=True)
        chosen = training.pairs[order[np.sort(first)]]
        batches = np.array_split(chosen, range(64, len(chosen), 64))[:STEPS]
        seconds = trained(list(pair.document_tower.parameters()), step, batches, recipe.optimiser)
        return seconds, Validator(validation, 300).quality(encoder)["nDCG@10"]

    return {"ours": measured(theirs=False), "sentence-transformers": measured(theirs=True)}


def trained(
    parameters: list[torch.nn.Parameter],
    step: Callable[[Any], object],
    batches: Batches,
    settings: Optimiser,
) -> float:
    """The processor seconds of one step for each batch."""
    accelerator = make_accelerator("fp32", 2)
    optimisation = Optimisation([(parameters, 1e-4)], settings, len(batches), accelerator)
    began = process_time()
    for batch in batches:
        step(batch)
        optimisation.step()
    return process_time() - began


def reranking(corpus: Path, folder: Path, seed: int) -> dict[str, tuple[float, float]]:
    """Processor seconds of an epoch, and the mean nDCG@10 after it, of both sides."""
    start, index = folder / f"start-{seed}", folder / "index"
    torch.manual_seed(seed)
    CrossEncoder.load(TowerSettings(torch_weights(), (0, 5), max_tokens=96)).save(start)
    data = [{"queries": str(corpus), "qrels": str(corpus / "qrels" / f"{SPLIT}.tsv")}]
    tables = {"index": str(index), "data": data, "cross_encoder": {"model": str(start)}}
    recipe = parse_tables(RerankerRecipe, RERANKER | tables | {"seed": seed}, "the benchmark")
    found, held_out = find_groups(recipe, Quiet())
    groups = found[: STEPS * recipe.optimiser.batch_size]
    accelerator = make_accelerator("fp32", 2)
    ours = CrossEncoder.load(TowerSettings(start))
    task = RerankingTask(recipe, ours, groups, held_out, accelerator)
    batches = [*enumerate(task.batches(0))]
    seconds = trained(
        list(ours.parameters()), lambda each: task.backward(*each), batches, recipe.optimiser
    )
    figures = {"ours": (seconds, task.evaluate(0).metrics["mean_ndcg@10"])}
    arguments = CrossEncoderTrainingArguments(
        str(folder / "theirs"), num_train_epochs=1, per_device_train_batch_size=16,
        learning_rate=1e-4, weight_decay=0.01, warmup_steps=STEPS // 10, seed=seed, use_cpu=True,
        save_strategy="no", report_to="none", disable_tqdm=True, logging_strategy="no",
    )  # fmt: skip
    theirs = TheirCrossEncoder(str(start), max_length=96, device="cpu")
    random = np.random.default_rng(seed)
    rows = Dataset.from_list([_row(group, random) for group in groups])
    trainer = CrossEncoderTrainer(theirs, arguments, rows, loss=ListNetLoss(theirs))
    began = process_time()
    trainer.train()
    seconds = process_time() - began
    ours.model.load_state_dict(theirs.model.state_dict())
    return figures | {"sentence-transformers": (seconds, task.evaluate(0).metrics["mean_ndcg@10"])}


def _row(group: Group, random: np.random.Generator) -> dict[str, Any]:
    """A query with a relevant text, and five others."""
    others = random.choice(group.others, min(5, len(group.others)), replace=False)
    places = [random.choice(group.relevant), *others]
    texts = [group.texts[place] for place in places]
    return {"query": group.query.text, "documents": texts, "labels": [1.0] + [0.0] * len(others)}


if __name__ == "__main__":
    main()
