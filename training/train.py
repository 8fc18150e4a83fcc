"""Trains a dual encoder from a recipe: reads the data, runs all stages, writes the result."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from training.inputs import load_data, make_dual_encoder, make_sampler, notes_of
from training.logged_run import read_training_log
from training.loop.batch_encoder import BatchEncoder
from training.loop.contrastive_stage import ContrastiveStage, ContrastiveTask
from training.loop.devices import make_accelerator, memory_errors, processes
from training.loop.embedding_cache import EmbeddingCache
from training.loop.false_negatives import FalseNegatives
from training.loop.late_interaction import LateInteraction
from training.loop.log import TrainingLog, TrainingProgress
from training.loop.loop import Best, TrainingLoop
from training.loop.run_directory import publish_run, run_directory
from training.loop.stage import Stage
from training.loop.state_files import weight_errors
from training.loop.validator import Validator
from training.methods import METHODS
from training.model.dual_encoder import DualEncoder
from training.model.fingerprint import embedding_space
from training.model.towers import Tower
from training.model.trained import TOWERS, recorded_space
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
    recipe: Recipe,
    out: Path,
    *,
    resume: bool = False,
    finish: bool = False,
    overwrite: bool = False,
    progress: TrainingProgress,
) -> Outcome:
    """Run `recipe` in the directory `out`.

    During the run, `out` has `recipe.json`, `metrics.jsonl` and `checkpoint/`. At the end it has
    the Sentence Transformers directories `query_encoder/` and `document_encoder/`. `manifest.json`
    is written last: without it, `out` is not a valid artefact.

    :param resume: Continue from the checkpoint of an earlier process, if there is one.
    :param finish: End the run of an earlier process with its best evaluation so far.
    :param overwrite: Remove an earlier run first.
    :raises RetrievalError: When the recipe, its data, its models or `out` are invalid, or the run
        cannot continue: see `training.errors`.
    """
    with (
        run_directory(
            out,
            recipe,
            _MAY_CHANGE,
            resume=resume,
            finish=finish,
            overwrite=overwrite,
            temporary=[_WORK],
        ),
        memory_errors(memory_advice(recipe), out),
    ):
        settings = recipe.optimiser
        accelerator = make_accelerator(settings.precision, settings.batch_size)
        torch.manual_seed(recipe.seed)
        dual_encoder = make_dual_encoder(recipe)
        # The other processes reuse the passages that the main process stores.
        with accelerator.main_process_first():
            data, validation = load_data(recipe, dual_encoder.document_tower, out / _WORK, progress)
        for note in notes_of(data, recipe):
            progress.note(note)
        outputs = EmbeddingCache(
            Path(recipe.embedding_cache or out / _WORK),
            output_key(dual_encoder.document_tower, recipe),
            dual_encoder.document_tower.vectors * dual_encoder.document_tower.width,
            processes(),
        )
        dual_encoder.to(accelerator.device)
        encoder = BatchEncoder(
            dual_encoder,
            accelerator,
            micro_batch_size=settings.texts_at_once,
            embedding_cache=outputs,
        )
        # A resumed run has the untrained document encoder until its checkpoint is read.
        false_negatives = None
        if (share := recipe.negatives.teacher_share) is not None:
            false_negatives = FalseNegatives(
                share, data.queries, data.passages, encoder, outputs, progress
            )
        teacher = None
        if recipe.loss.teacher_weight:
            teacher = LateInteraction(
                dual_encoder.document_tower, accelerator, settings.texts_at_once
            )
        validator = Validator(validation, recipe.validation.sample, recipe.validation.factory)
        log = TrainingLog(out, tensorboard=recipe.tensorboard and accelerator.is_main_process)
        loop = TrainingLoop(
            dual_encoder,
            dim=dual_encoder.dim,
            optimiser=recipe.optimiser,
            directory=out,
            accelerator=accelerator,
            log=log,
            progress=progress,
            average=recipe.fine_tuning.average,
            keep_stages=recipe.keep_stages,
            resume=resume,
            finish=finish,
        )

        def make_stage(settings: ContrastiveStage, number: int) -> Stage:
            task = ContrastiveTask(
                settings,
                recipe,
                number,
                data=data,
                false_negatives=false_negatives,
                teacher=teacher,
                encoder=encoder,
                sampler=make_sampler(recipe, data, encoder, number),
                validator=validator,
            )
            return task.stage()

        for stage in METHODS[recipe.recipe](recipe, dual_encoder.dim):
            loop.train(partial(make_stage, stage))
        best = loop.take_best()
        encoder.embedding_cache = None
        quality = validator.quality(encoder)
        if accelerator.is_main_process:
            _publish(out, recipe, dual_encoder, log, best, quality, len(validation.queries))
        accelerator.wait_for_everyone()
    chosen = f"the best checkpoint is of step {best.step} of stage {best.stage}"
    first, *_ = read_training_log(log.path).of_kind("evaluation")
    return Outcome(chosen, quality, len(validation.queries), first.values["ndcg@10"])


def keeps_documents(recipe: Recipe) -> bool:
    """Whether embeddings of documents stay as they are, so that indexes can be searched."""
    return recipe.recipe == "adore" and recipe.dual_encoder.projection == "none"


def memory_advice(recipe: Recipe) -> str:
    """Advice for the error message when memory runs out."""
    return (
        f"lower optimiser.micro_batch_size (now {recipe.optimiser.texts_at_once}) or set "
        "document_encoder.gradient_checkpointing, which --resume allows, or start again with a "
        "lower document_encoder.max_tokens or negatives.cache_fraction"
    )


def output_key(tower: Tower, recipe: Recipe) -> str:
    """The key of the embedding cache: everything that the outputs of the model depend on."""
    space = embedding_space(tower.with_projection(None))
    return f"{space} {tower.max_tokens} {recipe.optimiser.precision}{tower.prompt}"


def _publish(
    out: Path,
    recipe: Recipe,
    dual_encoder: DualEncoder,
    log: TrainingLog,
    best: Best,
    quality: dict[str, float],
    num_queries: int,
) -> None:
    """Write the encoders and the manifest of a finished run, and remove its checkpoints."""
    best_evaluation = {"stage": best.stage, "step": best.step, "ndcg@10": best.score}
    final = {f"final_{name.lower()}": value for name, value in quality.items()}
    log.write("end", **best_evaluation, **final)
    log.close()
    with weight_errors(out):
        dual_encoder.save(out)
    space = None
    if keeps_documents(recipe):
        space = recorded_space(recipe.document_encoder.model)  # indexes can be searched as before
    publish_run(
        out,
        [tower for tower in TOWERS if (out / tower).is_dir()],
        dim=dual_encoder.dim,
        embedding_space=space
        or embedding_space(
            dual_encoder.document_tower.with_projection(dual_encoder.document_projection)
        ),
        details={
            "recipe": recipe.model_dump(mode="json"),
            "best": best_evaluation,
            "validation": {"num_queries": num_queries, **quality},
        },
        temporary=[_WORK],
    )
