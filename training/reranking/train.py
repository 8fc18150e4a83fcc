"""Trains a cross-encoder from a recipe, and says before how large the training is."""

from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from training.loop.devices import make_accelerator
from training.loop.log import TrainingProgress
from training.loop.loop import TrainingLoop
from training.loop.run import Start, training_run
from training.loop.stage import StageLength
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
    recipe: RerankerRecipe, out: Path, *, progress: TrainingProgress, **start: Unpack[Start]
) -> Outcome:
    """Run `recipe` in the directory `out`, which has `cross_encoder/` at the end.

    :raises RetrievalError: When the recipe, its data, its model or `out` are invalid, or the run
        cannot continue: see `training.errors`.
    """
    size = recipe.optimiser.micro_batch_size or recipe.optimiser.batch_size
    with training_run(
        recipe,
        out,
        recipe.optimiser,
        seed=recipe.seed,
        may_change=_MAY_CHANGE,
        advice=f"lower optimiser.micro_batch_size (now {size}), which --resume allows",
        progress=progress,
        **start,
    ) as run:
        model = CrossEncoder.load(recipe.cross_encoder.settings())
        groups, held_out = find_groups(recipe, progress)
        model.to(run.accelerator.device)
        loop = TrainingLoop(run, model, 1, average=recipe.average)
        task = RerankingTask(recipe, model, groups, held_out, run.accelerator)
        loop.train(lambda _: task.stage())
        best = loop.take_best()
        final = {"step": best.step, **task.evaluate(best.step).metrics}
        model.weight = final["weight"]
        loop.publish(
            lambda folder: model.save(folder / MODEL),
            final,
            embedding_space="",
            details={
                "recipe": recipe.model_dump(mode="json"),
                "best": final,
                "num_held_out": len(held_out),
            },
        )
    ndcg, searched = final["ndcg@10"], final["searched_ndcg@10"]
    return Outcome(best.step, final["weight"], ndcg, searched, len(held_out))


def plan_of(recipe: RerankerRecipe, progress: TrainingProgress) -> list[tuple[str, str]]:
    """Load the model and find the candidates of `recipe`: names and values of the plan's table.

    :raises RetrievalError: When the recipe cannot be run.
    """
    make_accelerator(recipe.optimiser.precision)
    model = CrossEncoder.load(recipe.cross_encoder.settings())
    groups, held_out = find_groups(recipe, progress)
    length = StageLength(len(groups), recipe.optimiser.batch_size, recipe.epochs)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return [
        ("queries to train on", f"{len(groups):,}"),
        ("queries held out", f"{len(held_out):,}"),
        ("cross-encoder", f"{parameters:,} parameters"),
        ("tokens of a pair", f"at most {model.max_tokens:,}"),
        ("pairs of a step", f"at most {length.batch_size * (1 + recipe.candidates.negatives):,}"),
        ("pairs of an evaluation", f"at most {len(held_out) * recipe.candidates.reranked:,}"),
        ("steps per epoch", f"{length.steps_per_epoch:,}"),
        ("steps", f"at most {length.num_steps:,}"),
    ]
