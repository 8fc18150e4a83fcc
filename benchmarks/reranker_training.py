"""Measures our training of a re-ranker against CrossEncoderTrainer with ListNetLoss.

    python -m benchmarks.reranker_training --data DATA

DATA is as for experiments/hybrid.py. Both sides begin with the same weights, and learn from
the same queries. Writes a section of docs/results/training-peers.json and its page. It takes five
minutes of one core.
"""

import tempfile
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import CrossEncoder as TheirCrossEncoder
from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.cross_encoder.losses import ListNetLoss

import swiftlet
from measuring.command_line import script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, spread, write_section
from swiftlet.cli.terminal import ProgressBars
from swiftlet.encoders import torch_weights
from training.loop.devices import make_accelerator
from training.loop.optimisation import Optimisation
from training.model.cross_encoder import CrossEncoder
from training.model.towers import TowerSettings
from training.recipes.settings import parse_tables
from training.reranking.groups import Group, find_groups
from training.reranking.settings import RerankerRecipe
from training.reranking.task import RerankingTask

COLLECTION, SPLIT, BATCHES = "squad-dev-v1.1", "train", 12
LEARNING_RATE, LAYERS = 1e-4, (0, 5)
RECIPE: dict[str, Any] = {
    "recipe": "cross-encoder",
    "candidates": {"depth": 20, "negatives": 5},
    "validation": {"queries": 100},
    "optimiser": {"learning_rate": LEARNING_RATE, "batch_size": 16},
}
OURS, THEIRS = "Swiftlet", "Sentence Transformers"
PACKAGES = ["torch", "sentence-transformers", "transformers", "accelerate"]
Groups = tuple[list[Group], list[Group]]
Measured = tuple[float, float]
"""Processor seconds of the training, and nDCG@10 after it."""


def main() -> None:
    options = script_options(__doc__, data=Path, seeds=3, raw=RESULTS / "training-peers.json")
    torch.set_num_threads(1)
    corpus, runs = options.data / COLLECTION, list[dict[str, Measured]]()
    with tempfile.TemporaryDirectory() as folder, ProgressBars(visible=False) as progress:
        index, start = Path(folder) / "index", Path(folder) / "start"
        swiftlet.build(corpus, index)
        data = [{"queries": str(corpus), "qrels": str(corpus / "qrels" / f"{SPLIT}.tsv")}]
        tables = {"index": str(index), "data": data, "cross_encoder": {"model": str(start)}}
        recipe = parse_tables(RerankerRecipe, RECIPE | tables, "the benchmark")
        found = find_groups(recipe, progress)
        for seed in range(options.seeds):
            runs.append(reranking(start, recipe.model_copy(update={"seed": seed}), found))
            print(seed, runs[-1], flush=True)
    figures = {
        "template": "benchmarks/training_peers.md.j2",
        "made_by": "reranker_training",
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
    print(write_section(options.raw, title, "Re-rankers", figures))


def reranking(start: Path, recipe: RerankerRecipe, found: Groups) -> dict[str, Measured]:
    """A re-ranker, by both sides; nDCG@10 is the mean over all weights."""
    torch.manual_seed(recipe.seed)
    CrossEncoder.load(TowerSettings(torch_weights(), LAYERS, max_tokens=96)).save(start)
    groups, held_out = found[0][: BATCHES * recipe.optimiser.batch_size], found[1]
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
