"""Trains a dual encoder from a recipe: reads the data, runs all stages, writes the result."""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Unpack

from training.contrastive.batch_encoder import BatchEncoder
from training.contrastive.closed_form import align, fitted_on
from training.contrastive.false_negatives import FalseNegatives
from training.contrastive.stage import ContrastiveStage, ContrastiveTask
from training.contrastive.validator import Validator
from training.data.training_data import TrainingData
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
        closed_form = None
        if recipe.method.maps_queries(recipe):
            # Before the loop, whose average is with the weights that it begins with.
            closed_form = _align(recipe, data, encoder, validator, progress)
        loop = TrainingLoop(
            run,
            dual_encoder,
            dual_encoder.dim,
            average=recipe.fine_tuning.average,
            keep_stages=recipe.keep_stages,
        )
        if closed_form is not None and not loop.log.size():
            loop.log.write("closed form", **closed_form)

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
    first, *_ = [*logged(loop.log.path, "closed form"), *logged(loop.log.path, "evaluation")]
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


def _align(
    recipe: Recipe,
    data: TrainingData,
    encoder: BatchEncoder,
    validator: Validator,
    progress: TrainingProgress,
) -> dict[str, float]:
    """Align the encoders in closed form; the record for the log, with nDCG@10 before."""
    progress.begin("Alignment in closed form", None)
    before = validator.quality(encoder)["nDCG@10"]
    texts = fitted_on(data.queries, data.passages, recipe.alignment.texts, recipe.seed)
    fit = align(encoder, texts)
    progress.note(
        f"the query encoder is mapped to the document encoder: λ = {fit.rate:g}, mean cosine "
        f"{fit.cosine_before:.3f} before and {fit.cosine:.3f} after on held-out texts"
        + (
            f"; {fit.num_texts} texts are fewer than the dimensions, so that λ holds the map: more "
            "texts may be better (alignment.texts 'both')"
            if fit.is_small
            else ""
        )
    )
    return {"ndcg@10": before, **asdict(fit)}


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
