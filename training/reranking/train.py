"""Trains a cross-encoder from a recipe."""

from dataclasses import dataclass
from pathlib import Path

import torch

from training.loop.devices import check_single_process, make_accelerator, memory_errors
from training.loop.log import TrainingLog, TrainingProgress
from training.loop.loop import TrainingLoop
from training.loop.run_directory import publish_run, run_directory
from training.loop.state_files import weight_errors
from training.model.cross_encoder import CrossEncoder
from training.model.trained import MODEL
from training.reranking.groups import find_groups
from training.reranking.settings import RerankerRecipe
from training.reranking.task import RerankingTask

_MAY_CHANGE = frozenset({"optimiser.learning_rate", "optimiser.micro_batch_size"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """The best step and weight, and nDCG@10 on the queries held out: re-ranked, and as searched."""

    step: int
    weight: float
    ndcg: float
    searched_ndcg: float
    num_queries: int


def train_reranker(
    recipe: RerankerRecipe,
    out: Path,
    *,
    resume: bool = False,
    finish: bool = False,
    overwrite: bool = False,
    progress: TrainingProgress,
) -> Outcome:
    """Run `recipe` in the directory `out`, which has `cross_encoder/` at the end.

    :param resume: Continue from the checkpoint of an earlier process, if there is one.
    :param finish: End the run of an earlier process with its best evaluation so far.
    :param overwrite: Remove an earlier run first.
    :raises RetrievalError: When the recipe, its data, its model or `out` are invalid, or the run
        cannot continue: see `training.errors`.
    """
    check_single_process("a cross-encoder trains")
    size = recipe.optimiser.micro_batch_size or recipe.optimiser.batch_size
    advice = f"lower optimiser.micro_batch_size (now {size}), which --resume allows"
    with (
        run_directory(out, recipe, _MAY_CHANGE, resume=resume, finish=finish, overwrite=overwrite),
        memory_errors(advice, out),
    ):
        accelerator = make_accelerator(recipe.optimiser.precision, recipe.optimiser.batch_size)
        torch.manual_seed(recipe.seed)
        model = CrossEncoder.load(recipe.cross_encoder.settings())
        groups, held_out = find_groups(recipe, progress)
        model.to(accelerator.device)
        log = TrainingLog(out)
        loop = TrainingLoop(
            model,
            dim=1,
            optimiser=recipe.optimiser,
            directory=out,
            accelerator=accelerator,
            log=log,
            progress=progress,
            average=recipe.average,
            resume=resume,
            finish=finish,
        )
        task = RerankingTask(recipe, model, groups, held_out, accelerator)
        loop.train(lambda _: task.stage())
        best = loop.take_best()
        final = task.evaluate(best.step).metrics
        log.write("end", step=best.step, **final)
        log.close()
        model.weight = final["weight"]
        with weight_errors(out):
            model.save(out / MODEL)
        publish_run(
            out,
            [MODEL],
            dim=1,
            embedding_space="",
            details={
                "recipe": recipe.model_dump(mode="json"),
                "best": {"step": best.step, **final},
                "num_held_out": len(held_out),
            },
        )
    ndcg, searched = final["ndcg@10"], final["searched_ndcg@10"]
    return Outcome(best.step, final["weight"], ndcg, searched, len(held_out))
