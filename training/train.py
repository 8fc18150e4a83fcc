"""Trains a dual encoder from a recipe: reads the data, runs all stages, writes the result."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Unpack

from training.contrastive.batch_encoder import BatchEncoder
from training.contrastive.false_negatives import FalseNegatives
from training.contrastive.stage import ContrastiveStage, ContrastiveTask
from training.contrastive.validator import Validator
from training.inputs import load_data, make_dual_encoder, make_loss, make_step, notes_of
from training.loop.embedding_cache import EmbeddingCache
from training.loop.log import TrainingProgress, logged
from training.loop.loop import Best, TrainingLoop
from training.loop.run import Start, training_run
from training.loop.stage import Stage
from training.model.dual_encoder import DualEncoder
from training.model.fingerprint import embedding_space, outputs_key
from training.model.folders import recorded_space
from training.recipes.settings import Recipe

_WORK = "work"

_MAY_CHANGE = {
    "optimiser.learning_rate",
    "optimiser.document_learning_rate",
    "optimiser.projection_learning_rate",
    "alignment.learning_rate",
    "optimiser.micro_batch_size",
    "query_encoder.gradient_checkpointing",
    "document_encoder.gradient_checkpointing",
    "tensorboard",
    "keep_stages",
    "embedding_cache",
}
"""Settings that may change when a run is resumed.

Some settings help after a diverging loss or a lack of memory; the rest keep the result.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: the chosen evaluation, and the quality on `num_queries` queries.

    `ndcg_before` is their nDCG@10 before the training.
    """

    chosen: str
    quality: dict[str, float]
    num_queries: int
    ndcg_before: float

    @property
    def has_gained(self) -> bool:
        """Whether nDCG@10 is higher than before."""
        return self.quality["nDCG@10"] > self.ndcg_before


def train(
    recipe: Recipe, out: Path, *, progress: TrainingProgress, **start: Unpack[Start]
) -> Outcome:
    """Run `recipe` in the directory `out`.

    At the end `out` has the Sentence Transformers directories `query_encoder/` and
    `document_encoder/`.

    :raises RetrievalError: When the recipe, its data, its models or `out` are invalid, or the run
        cannot continue: see `training.errors`.
    """
    with training_run(
        recipe,
        out,
        recipe.optimiser,
        seed=recipe.seed,
        may_change=_MAY_CHANGE,
        advice=memory_advice(recipe),
        progress=progress,
        tensorboard=recipe.tensorboard,
        temporary=[_WORK],
        **start,
    ) as run:
        accelerator = run.accelerator
        dual_encoder = make_dual_encoder(recipe)
        data, validation = load_data(recipe, dual_encoder.document_tower, out / _WORK, progress)
        for note in notes_of(data, recipe):
            progress.note(note)
        outputs = EmbeddingCache(
            Path(recipe.embedding_cache or out / _WORK),
            outputs_key(dual_encoder.document_tower, recipe.optimiser.precision),
            dual_encoder.document_tower.vectors * dual_encoder.document_tower.width,
        )
        dual_encoder.to(accelerator.device)
        encoder = BatchEncoder(
            dual_encoder,
            accelerator,
            micro_batch_size=recipe.optimiser.texts_at_once,
            embedding_cache=outputs,
        )
        # A resumed run has the untrained document encoder until its checkpoint is read.
        false_negatives = None
        if (share := recipe.negatives.teacher_share) is not None:
            false_negatives = FalseNegatives(
                share, data.queries, data.passages, encoder, outputs, progress
            )
        loss = make_loss(recipe, data, encoder)
        validator = Validator(validation, recipe.validation.sample, recipe.validation.factory)
        loop = TrainingLoop(
            run,
            dual_encoder,
            dual_encoder.dim,
            average=recipe.fine_tuning.average,
            keep_stages=recipe.keep_stages,
        )

        def make_stage(settings: ContrastiveStage, number: int) -> Stage:
            task = ContrastiveTask(
                settings,
                make_step(recipe, data, encoder, loss, false_negatives, number),
                data.pairs,
                validator,
                batch_size=recipe.optimiser.batch_size,
                evaluate_every=recipe.validation.every,
                collapse=recipe.collapse,
                seed=(recipe.seed, number),
            )
            return task.stage()

        for stage in recipe.method.stages(recipe, dual_encoder.dim):
            loop.train(partial(make_stage, stage))
        best = loop.take_best()
        encoder.embedding_cache = None
        quality = validator.quality(encoder)
        _publish(loop, recipe, dual_encoder, best, quality, len(validation.queries))
    chosen = f"the best checkpoint is of step {best.step} of stage {best.stage}"
    first, *_ = logged(loop.log.path, "evaluation")
    return Outcome(chosen, quality, len(validation.queries), first["ndcg@10"])


def keeps_documents(recipe: Recipe) -> bool:
    """Whether embeddings of documents stay as they are, so that indexes can be searched."""
    return recipe.method.keeps_documents and recipe.dual_encoder.projection == "none"


def memory_advice(recipe: Recipe) -> str:
    """Advice for the error message when memory runs out."""
    return (
        f"lower optimiser.micro_batch_size (now {recipe.optimiser.texts_at_once}) or set "
        "document_encoder.gradient_checkpointing, which --resume allows, or start again with a "
        "lower document_encoder.max_tokens or negatives.cache_fraction"
    )


def _publish(
    loop: TrainingLoop,
    recipe: Recipe,
    dual_encoder: DualEncoder,
    best: Best,
    quality: dict[str, float],
    num_queries: int,
) -> None:
    """Write the encoders and the manifest of a finished run."""
    best_evaluation = {"stage": best.stage, "step": best.step, "ndcg@10": best.score}
    space = None
    if keeps_documents(recipe):
        space = recorded_space(recipe.document_encoder.model)  # indexes can be searched as before
    loop.publish(
        dual_encoder.save,
        best_evaluation | {f"final_{name.lower()}": value for name, value in quality.items()},
        embedding_space=space
        or embedding_space(
            dual_encoder.document_tower.with_projection(dual_encoder.document_projection)
        ),
        details={
            "recipe": recipe.model_dump(mode="json"),
            "best": best_evaluation,
            "validation": {"num_queries": num_queries, **quality},
        },
    )
