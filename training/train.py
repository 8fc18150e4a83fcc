"""A recipe to a trained pair of encoders: reads, wires, runs, publishes."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, PartialState
from safetensors import SafetensorError

from retrieval.errors import InvalidArgumentError, StorageError
from retrieval.manifest import FILE_NAME, Manifest, describe_files, write_manifest
from retrieval.publication import storage_errors
from training.context import BEST, CHECKPOINT, TrainingContext, TrainingProgress
from training.encoders import Tower
from training.encoding import BatchEncoder
from training.errors import RecipeError
from training.fingerprint import embedding_space
from training.frozen_outputs import FrozenOutputs
from training.inputs import load_data, make_dual_encoder
from training.log import FILE_NAME as LOG_FILE
from training.log import TrainingLog
from training.negatives.choice import make_sampler
from training.recipe import Recipe
from training.recipes import RECIPES
from training.run import TrainingRun
from training.step import TrainingTexts
from training.validator import Validator

KIND = "model"
RECIPE_FILE = "recipe.json"
TOWERS = ("query_encoder", "document_encoder")
_WORK = "work"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run ended with: the evaluation it chose, and retrieval on `num_queries` queries."""

    chosen: str
    quality: dict[str, float]
    num_queries: int
    manifest: Manifest


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
    with _quiet_storage(out):
        _prepare_directory(out, recipe, resume=resume, overwrite=overwrite)
        accelerator = _accelerator(recipe)
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
        )
        dual_encoder.to(accelerator.device)
        settings = recipe.optimiser
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


def is_main_process() -> bool:
    """Whether this process is the one that writes and prints."""
    return bool(PartialState().is_main_process)


def _prepare_directory(out: Path, recipe: Recipe, *, resume: bool, overwrite: bool) -> None:
    if not is_main_process():
        PartialState().wait_for_everyone()
        return
    content = recipe.model_dump(mode="json")
    earlier = out / RECIPE_FILE
    if out.exists() and not out.is_dir():
        raise InvalidArgumentError(f"{out} exists and is not a directory")
    if out.is_dir() and any(out.iterdir()):
        if not earlier.is_file():
            raise InvalidArgumentError(f"{out} is not empty and has no {RECIPE_FILE}: it is no run")
        if overwrite:
            shutil.rmtree(out)
        elif (out / FILE_NAME).is_file():
            raise InvalidArgumentError(
                f"{out} has a finished run; choose another place or pass --overwrite"
            )
        elif not resume:
            raise InvalidArgumentError(
                f"{out} has an unfinished run; pass --resume to go on or --overwrite to begin anew"
            )
        else:
            _check_same(json.loads(earlier.read_text("utf-8")), content, out)
    with storage_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        earlier.write_text(json.dumps(content, indent=1), "utf-8")
    PartialState().wait_for_everyone()


def _check_same(earlier: dict[str, Any], content: dict[str, Any], out: Path) -> None:
    different = sorted(
        name for name in {*earlier, *content} if earlier.get(name) != content.get(name)
    )
    if different:
        raise RecipeError(
            f"{out} was begun with another recipe: {', '.join(different)} differ; use the same, "
            "or begin anew elsewhere"
        )


def _accelerator(recipe: Recipe) -> Accelerator:
    precision = recipe.optimiser.precision
    if precision == "fp16" and not torch.cuda.is_available():
        raise RecipeError("optimiser.precision fp16 needs a GPU: use bf16 or fp32 on this machine")
    accelerator = Accelerator(mixed_precision="no" if precision == "fp32" else precision)
    if recipe.optimiser.batch_size < accelerator.num_processes:
        raise RecipeError(
            f"optimiser.batch_size is {recipe.optimiser.batch_size}, fewer than the "
            f"{accelerator.num_processes} processes"
        )
    return accelerator


def output_key(tower: Tower, recipe: Recipe) -> str:
    """Whatever changes what the frozen document language model says, for `FrozenOutputs`."""
    space = embedding_space(tower.with_projection(None))
    return f"{space} {tower.max_tokens} {recipe.optimiser.precision}"


def _finish(run: TrainingRun, out: Path) -> Outcome:
    context = run.context
    best = run.take_best()
    context.encoder.frozen_outputs = None
    quality = context.validator.quality(context.encoder)
    space = embedding_space(
        context.dual_encoder.document_tower.with_projection(
            context.dual_encoder.document_projection
        )
    )
    manifest = Manifest(
        kind=KIND, dim=context.dual_encoder.dim, embedding_space=space, files={}, created_by=""
    )
    if context.accelerator.is_main_process:
        context.log.write("end", **best, **{f"final_{k.lower()}": v for k, v in quality.items()})
        context.log.close()
        context.dual_encoder.save(out)
        manifest = _publish(context, out, space, best, quality)
    context.accelerator.wait_for_everyone()
    chosen = f"the best checkpoint is that of step {best['step']} of stage {best['stage']}"
    return Outcome(chosen, quality, len(context.validator.validation.queries), manifest)


def _publish(
    context: TrainingContext,
    out: Path,
    space: str,
    best: dict[str, Any],
    quality: dict[str, float],
) -> Manifest:
    files = [LOG_FILE, RECIPE_FILE]
    for tower in TOWERS:
        files += [
            path.relative_to(out).as_posix() for path in (out / tower).rglob("*") if path.is_file()
        ]
    manifest = Manifest(
        kind=KIND,
        dim=context.dual_encoder.dim,
        embedding_space=space,
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
    return manifest


@contextmanager
def _quiet_storage(out: Path) -> Iterator[None]:
    try:
        yield
    except SafetensorError as error:
        raise StorageError(f"cannot write {out}: {error}") from error
