"""`swiftlet distill`: a small query encoder in the space of an index that is there already."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.table import Table

from retrieval.errors import InvalidArgumentError
from swiftlet.terminal import StageBars, output
from training.distillation.agreement import Agreement
from training.distillation.distill import Judged, distill
from training.distillation.settings import Distillation
from training.faults import faults
from training.overrides import apply_override


def distill_encoder(
    out: Path,
    options: Mapping[str, Any],
    *,
    overrides: Sequence[str],
    test_queries: Path | None,
    qrels: Path | None,
    teacher_embeddings: Path | None,
    resume: bool,
    overwrite: bool,
) -> None:
    """Distil as `options` say, of which None stands for a default, and print what came of it.

    :param overrides: Settings as key=value, on top of `options`.
    """
    if (test_queries is None) != (qrels is None):
        raise InvalidArgumentError("--test-queries and --qrels belong together: pass both")
    given = {name: value for name, value in options.items() if value is not None}
    if "layers" in given:
        given["layers"] = _layers(given["layers"])
    for override in overrides:
        apply_override(given, override)
    try:
        # Lists are what TOML has, tuples what does not change.
        settings = Distillation.model_validate(
            {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
        )
    except ValidationError as error:
        raise InvalidArgumentError(
            faults(error, Distillation, lambda name: _option(name, options))
        ) from error
    judged = None if test_queries is None or qrels is None else Judged(test_queries, qrels)
    with StageBars() as progress:
        outcome = distill(
            settings,
            out,
            teacher_embeddings=teacher_embeddings,
            judged=judged,
            resume=resume,
            overwrite=overwrite,
            progress=progress,
        )
    output.print(
        f"[bold]{out}[/]: the best checkpoint is that of step {outcome.best_step}; its mean cosine "
        f"with the teacher on {outcome.num_held_out:,} texts held out is {outcome.cosine:.4f}",
        soft_wrap=True,
    )
    if outcome.agreements:
        output.print(_table(outcome.agreements))
    output.print(
        f"Next: swiftlet export {out}/query_encoder --out DIR", markup=False, soft_wrap=True
    )


def _layers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError as error:
        raise InvalidArgumentError(
            f"--layers {text!r} is no list of layers: numbers from 0 with commas, such as 0,5, are "
            "expected"
        ) from error


def _option(setting: str, options: Mapping[str, Any]) -> str:
    """What a user of the command calls a setting."""
    name, *within = setting.split(".")
    option = f"--{name.replace('_', '-')}" if name in options else f"--set {name}"
    return ".".join([option, *within])


def _table(agreements: list[Agreement]) -> Table:
    """What the student finds of what the teacher finds."""
    judged = agreements[0].teacher_ndcg is not None
    table = Table(
        title=f"What of the teacher's 10 best the student finds, {agreements[0].num_queries} "
        "queries held out",
        title_justify="left",
    )
    names = ["search", "overlap@10", "recall@100"]
    for name in [*names, *(["nDCG@10 teacher", "student", "kept"] if judged else [])]:
        table.add_column(name, justify="left" if name == "search" else "right")
    for each in agreements:
        cells = [each.searched, f"{each.overlap_10:.3f}", f"{each.recall_100:.3f}"]
        if each.teacher_ndcg is not None and each.student_ndcg is not None:
            kept = each.student_ndcg / each.teacher_ndcg if each.teacher_ndcg else 0.0
            cells += [f"{each.teacher_ndcg:.4f}", f"{each.student_ndcg:.4f}", f"{kept:.1%}"]
        table.add_row(*cells)
    return table
