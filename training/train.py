"""A recipe to a trained pair of encoders: reads, wires, runs, publishes."""

import shutil
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from retrieval.manifest import Manifest, describe_files, write_manifest
from training.context import BEST, CHECKPOINT, TrainingContext, TrainingProgress
from training.devices import make_accelerator, processes
from training.directory import RECIPE_FILE, run_directory
from training.encoders import Tower
from training.encoding import BatchEncoder
from training.fingerprint import embedding_space
from training.frozen_outputs import FrozenOutputs
from training.inputs import load_data, make_dual_encoder
from training.log import FILE_NAME as LOG_FILE
from training.log import TrainingLog
from training.memory import memory_errors
from training.negatives.choice import make_sampler
from training.recipe import Recipe
from training.recipes import RECIPES
from training.run import TrainingRun
from training.state_files import weight_errors
from training.step import TrainingTexts
from training.trained import KIND, TOWERS
from training.validator import Validator

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
    "frozen_outputs",
}
"""Settings that may change while a run is interrupted: a loss that was no number may have been the
reason, or memory; or they change no result."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run ended with: the evaluation it chose, and retrieval on `num_queries` queries."""

    chosen: str
    quality: dict[str, float]
    num_queries: int


def train(
    recipe: Recipe,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: TrainingProgress,
) -> Outcome:
    """Train what `recipe` says and keep everything in `out`.

    From its first step on a run has `recipe.json`, `metrics.jsonl` and `checkpoint/` there; when it
    is done, `query_encoder/` and `document_encoder/`, Sentence Transformers directories, and last
    of all `manifest.json`, without which it is no artefact.

    :param resume: Go on from the checkpoint of an earlier process; start where there is none.
    :param overwrite: Remove an earlier run first.
    :raises RetrievalError: When the recipe, its data, its models or `out` are not what they must
        be, or the run cannot go on: see `training.errors`.
    """
    with (
        run_directory(out, recipe, _MAY_CHANGE, resume=resume, overwrite=overwrite),
        memory_errors(memory_advice(recipe), out),
    ):
        settings = recipe.optimiser
        accelerator = make_accelerator(settings.precision, settings.batch_size)
        torch.manual_seed(recipe.seed)
        dual_encoder = make_dual_encoder(recipe)
        # Whoever comes second finds the passages stored.
        with accelerator.main_process_first():
            data, validation = load_data(recipe, dual_encoder.document_tower, out / _WORK, progress)
        for note in data.notes:
            progress.note(note)
        outputs = FrozenOutputs(
            Path(recipe.frozen_outputs or out / _WORK),
            output_key(dual_encoder.document_tower, recipe),
            dual_encoder.document_tower.width,
            processes(),
        )
        dual_encoder.to(accelerator.device)
        encoder = BatchEncoder(
            dual_encoder,
            accelerator,
            micro_batch_size=settings.micro_batch_size or settings.batch_size,
            frozen_outputs=outputs,
        )
        log = TrainingLog(out, tensorboard=recipe.tensorboard and accelerator.is_main_process)
        context = TrainingContext(
            recipe=recipe,
            directory=out,
            dual_encoder=dual_encoder,
            encoder=encoder,
            texts=TrainingTexts(data.queries, data.passages, data.known),
            pairs=data.pairs,
            validator=Validator(validation, recipe.validation.sample, recipe.validation.factory),
            make_sampler=lambda stage: make_sampler(
                recipe.negatives,
                recipe.loss,
                data,
                dim=dual_encoder.dim,
                seed=recipe.seed + stage,
                device=accelerator.device,
                encode_queries=encoder.queries,
            ),
            accelerator=accelerator,
            progress=progress,
            log=log,
        )
        run = TrainingRun(context, resume=resume)
        RECIPES[recipe.recipe](run)
        return _finish(run, out)


def memory_advice(recipe: Recipe) -> str:
    """What to do when memory runs out."""
    size = recipe.optimiser.micro_batch_size or recipe.optimiser.batch_size
    return (
        f"lower optimiser.micro_batch_size (now {size}) or set "
        "document_encoder.gradient_checkpointing, which --resume allows, or begin anew with a "
        "lower document_encoder.max_tokens or negatives.cache_fraction"
    )


def output_key(tower: Tower, recipe: Recipe) -> str:
    """Whatever changes what the frozen document language model says, for `FrozenOutputs`."""
    space = embedding_space(tower.with_projection(None))
    return f"{space} {tower.max_tokens} {recipe.optimiser.precision}"


def _finish(run: TrainingRun, out: Path) -> Outcome:
    context = run.context
    best = run.take_best()
    context.encoder.frozen_outputs = None
    quality = context.validator.quality(context.encoder)
    if context.accelerator.is_main_process:
        context.log.write("end", **best, **{f"final_{k.lower()}": v for k, v in quality.items()})
        context.log.close()
        with weight_errors(out):
            context.dual_encoder.save(out)
        _publish(context, out, best, quality)
    context.accelerator.wait_for_everyone()
    chosen = f"the best checkpoint is that of step {best['step']} of stage {best['stage']}"
    return Outcome(chosen, quality, len(context.validator.validation.queries))


def _publish(
    context: TrainingContext, out: Path, best: dict[str, Any], quality: dict[str, float]
) -> None:
    dual_encoder = context.dual_encoder
    files = [LOG_FILE, RECIPE_FILE]
    for tower in TOWERS:
        files += [
            path.relative_to(out).as_posix() for path in (out / tower).rglob("*") if path.is_file()
        ]
    manifest = Manifest(
        kind=KIND,
        dim=dual_encoder.dim,
        embedding_space=embedding_space(
            dual_encoder.document_tower.with_projection(dual_encoder.document_projection)
        ),
        files=describe_files(out, files),
        created_by=f"swiftlet {version('swiftlet-retrieval')}",
        details={
            "recipe": context.recipe.model_dump(mode="json"),
            "best": best,
            "validation": {"num_queries": len(context.validator.validation.queries), **quality},
            "made_with": {
                package: version(package)
                for package in ("torch", "transformers", "sentence-transformers", "accelerate")
            },
        },
    )
    write_manifest(out, manifest)
    # Only now that the result is whole.
    for name in (CHECKPOINT, BEST, _WORK):
        shutil.rmtree(out / name, ignore_errors=True)
