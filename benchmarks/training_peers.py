"""Measures our training beside Sentence Transformers: gradient caching, and re-rankers.

    python -m benchmarks.training_peers --data DATA

Gradient caching is compared with CachedMultipleNegativesRankingLoss on the same batches, re-rankers
with CrossEncoderTrainer and ListNetLoss on the same queries. Both sides begin with the same
weights, and have the same optimiser. DATA is made by `python -m experiments.data`. Writes
docs/results/training-peers.json and its page. It takes ten minutes of one core.
"""

import tempfile
from collections.abc import Callable
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
from measuring.command_line import folder_with, script_options
from measuring.experiment import Stages
from measuring.machine import describe_machine
from measuring.results import RESULTS, spread, write_section
from swiftlet.encoders import torch_weights
from training.contrastive.batch_encoder import BatchEncoder
from training.contrastive.validator import Validator
from training.inputs import load_data, make_dual_encoder, make_loss, make_step
from training.loop.devices import make_accelerator
from training.loop.optimisation import Optimisation
from training.model.cross_encoder import CrossEncoder
from training.model.towers import TowerSettings
from training.recipes.settings import parse_recipe, parse_tables
from training.reranking.groups import Group, find_groups
from training.reranking.settings import RerankerRecipe
from training.reranking.task import RerankingTask

COLLECTION, SPLIT = "squad-dev-v1.1", "train"
LEARNING_RATE, LAYERS = 1e-4, (0, 5)
PAIRS_BATCHES, GROUPS_BATCHES = 8, 12
PAIRS: dict[str, Any] = {
    "recipe": "contrastive",
    "dual_encoder": {"projection": "none", "sharing": "all"},
    "passages": {"tokens": 64, "truncate": True},
    "validation": {"queries": 150, "max_passages": 500},
    "negatives": {"samplers": ["in_batch"]},
    "optimiser": {"learning_rate": LEARNING_RATE, "batch_size": 64, "micro_batch_size": 16},
}
GROUPS: dict[str, Any] = {
    "recipe": "cross-encoder",
    "candidates": {"depth": 20, "negatives": 5},
    "validation": {"queries": 100},
    "optimiser": {"learning_rate": LEARNING_RATE, "batch_size": 16},
}
OURS, THEIRS = "Swiftlet", "Sentence Transformers"
PACKAGES = ["torch", "sentence-transformers", "transformers", "accelerate"]
Measured = tuple[float, float]
"""Processor seconds of the training, and nDCG@10 after it."""


def main() -> None:
    options = script_options(
        __doc__, data=folder_with(COLLECTION), seeds=3, raw=RESULTS / "training-peers.json"
    )
    torch.set_num_threads(1)
    corpus, seeds = options.data / COLLECTION, range(options.seeds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = [contrastive(corpus, folder, seed) for seed in seeds]
        write_figures(options.raw, "Gradient caching", PAIRS, PAIRS_BATCHES, runs)
        swiftlet.build(corpus, folder / "index")
        data = [{"queries": str(corpus), "qrels": str(corpus / "qrels" / f"{SPLIT}.tsv")}]
        model = {"cross_encoder": {"model": str(folder / "start")}}
        tables = {"index": str(folder / "index"), "data": data, **model, **GROUPS}
        recipe = parse_tables(RerankerRecipe, tables, "the benchmark")
        found = find_groups(recipe, Stages())
        runs = [reranking(recipe.model_copy(update={"seed": seed}), *found) for seed in seeds]
        print(write_figures(options.raw, "Re-rankers", GROUPS, GROUPS_BATCHES, runs))


def write_figures(
    raw: Path, heading: str, settings: dict[str, Any], batches: int, runs: list[dict[str, Measured]]
) -> Path:
    """Write the section of the runs, one with each seed; the path of the page."""
    figures = {
        "template": "benchmarks/training_peers.md.j2",
        "machine": describe_machine(PACKAGES, threads="1"),
        "collection": f"{COLLECTION} {SPLIT}",
        "batches": batches,
        "settings": settings,
        "seeds": len(runs),
        "sides": {
            side: {
                name: spread([run[side][place] for run in runs])
                for place, name in enumerate(("seconds", "ndcg"))
            }
            for side in (OURS, THEIRS)
        },
    }
    return write_section(raw, "Our training beside Sentence Transformers", heading, figures)


def contrastive(corpus: Path, folder: Path, seed: int) -> dict[str, Measured]:
    """A pair with one tower, by both sides."""
    model = {"model": str(torch_weights()), "layers": LAYERS, "pooling": "mean", "max_tokens": 64}
    towers = {f"{tower}_encoder": model for tower in ("query", "document")}
    data = {"data": [{"corpus": str(corpus), "qrels": SPLIT}], "seed": seed}
    recipe = parse_recipe(PAIRS | towers | data, "the benchmark")

    def measured(side: str) -> Measured:
        torch.manual_seed(seed)
        pair = make_dual_encoder(recipe).train()  # with dropout
        training, validation = load_data(recipe, pair.document_tower, folder, Stages())
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
        batches = np.array_split(chosen, range(64, len(chosen), 64))[:PAIRS_BATCHES]
        parts = [([*pair.document_tower.parameters()], LEARNING_RATE)]
        accelerator = encoder.accelerator
        optimisation = Optimisation(parts, recipe.optimiser, len(batches), accelerator)
        began = process_time()
        for batch in batches:
            step(batch)
            optimisation.step()
        return process_time() - began, Validator(validation, 150).quality(encoder)["nDCG@10"]

    return {side: measured(side) for side in (OURS, THEIRS)}


def reranking(
    recipe: RerankerRecipe, training: list[Group], held_out: list[Group]
) -> dict[str, Measured]:
    """A re-ranker, by both sides; nDCG@10 is the mean over all weights."""
    torch.manual_seed(recipe.seed)
    start = Path(recipe.cross_encoder.model)
    CrossEncoder.load(TowerSettings(torch_weights(), LAYERS, max_tokens=96)).save(start)
    groups = training[: GROUPS_BATCHES * recipe.optimiser.batch_size]
    ours = CrossEncoder.load(TowerSettings(start))
    accelerator = make_accelerator("fp32", 2)
    task = RerankingTask(recipe, ours, groups, held_out, accelerator)
    batches, parts = task.batches(0), [([*ours.parameters()], LEARNING_RATE)]
    optimisation = Optimisation(parts, recipe.optimiser, len(batches), accelerator)
    began = process_time()
    for step, batch in enumerate(batches):
        task.backward(step, batch)
        optimisation.step()
    seconds = process_time() - began
    measured = {OURS: (seconds, task.evaluate(0).metrics["mean_ndcg@10"])}
    arguments = CrossEncoderTrainingArguments(
        str(start.with_name("theirs")), num_train_epochs=1, per_device_train_batch_size=16,
        learning_rate=LEARNING_RATE, weight_decay=0.01, warmup_steps=len(batches) // 10,
        seed=recipe.seed, use_cpu=True, save_strategy="no", report_to="none", disable_tqdm=True,
        logging_strategy="no",
    )  # fmt: skip
    theirs = TheirCrossEncoder(str(start), max_length=96, device="cpu")
    random = np.random.default_rng(recipe.seed)
    rows = Dataset.from_list([_row(group, random) for group in groups])
    trainer = CrossEncoderTrainer(theirs, arguments, rows, loss=ListNetLoss(theirs))
    began = process_time()
    trainer.train()
    seconds = process_time() - began
    ours.model.load_state_dict(theirs.model.state_dict())
    return measured | {THEIRS: (seconds, task.evaluate(0).metrics["mean_ndcg@10"])}


def _row(group: Group, random: np.random.Generator) -> dict[str, Any]:
    """A query with a relevant text, and five others."""
    others = random.choice(group.others, min(5, len(group.others)), replace=False)
    texts = [group.texts[place] for place in (random.choice(group.relevant), *others)]
    return {"query": group.query.text, "documents": texts, "labels": [1.0] + [0.0] * len(others)}


if __name__ == "__main__":
    main()
