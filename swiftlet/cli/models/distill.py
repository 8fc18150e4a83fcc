"""`swiftlet distill`: trains a small query encoder for an existing index."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from swiftlet.cli.models.exporting import export_models, has_ended, print_next
from swiftlet.cli.options import Finish, OverwriteRun, PoolingOption, Resume, value_of
from swiftlet.cli.terminal import ProgressBars, output
from swiftlet.errors import InvalidArgumentError

if TYPE_CHECKING:
    from training.distillation.distill import DistillationResult
    from training.distillation.overlap import Overlap


class Distance(StrEnum):
    """The distance that a distillation minimises."""

    euclidean = "euclidean"
    cosine = "cosine"


class TrainingPrecision(StrEnum):
    """The precision that training computes in."""

    fp32 = "fp32"
    bf16 = "bf16"
    fp16 = "fp16"


def distill(
    teacher: Annotated[
        str, typer.Option(help="The query encoder to imitate: a folder or a name on the hub.")
    ],
    out: Annotated[Path, typer.Option(help="Directory of the run.")],
    queries: Annotated[
        list[Path] | None,
        typer.Option(help="A query log: text, JSONL, TSV or a BEIR folder; may be repeated."),
    ] = None,
    corpus: Annotated[
        list[Path] | None,
        typer.Option(help="A corpus or index to take sentences and titles from; may be repeated."),
    ] = None,
    sentences: Annotated[
        int | None,
        typer.Option(min=1, help="The largest number of sentences.", show_default="200000"),
    ] = None,
    layers: Annotated[
        str | None, typer.Option(help="Layers that are kept, such as 0,5.", show_default="all")
    ] = None,
    student: Annotated[
        str | None,
        typer.Option(help="Another checkpoint to start from.", show_default="the teacher"),
    ] = None,
    pooling: PoolingOption = None,
    projection: Annotated[
        bool | None,
        typer.Option(
            help="Learn a projection to the teacher's width.",
            show_default="for another checkpoint",
        ),
    ] = None,
    index: Annotated[
        Path | None, typer.Option(help="Index in the teacher's space to compare both encoders on.")
    ] = None,
    test_queries: Annotated[
        Path | None, typer.Option(help="Judged queries for the index; needs --qrels.")
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option(help="Their BEIR or TREC qrels; needs --test-queries.")
    ] = None,
    distance: Annotated[
        Distance | None,
        typer.Option(help="The distance that is minimised.", show_default="euclidean"),
    ] = None,
    ranking: Annotated[
        float | None,
        typer.Option(
            min=0, help="Weight of a contrastive term on the index's documents.", show_default="0"
        ),
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(help="How often each text is used.", show_default="10")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=2, help="Texts per step.", show_default="64")
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(help="The learning rate after the warm-up.", show_default="0.0005"),
    ] = None,
    precision: Annotated[
        TrainingPrecision | None,
        typer.Option(help="The precision of the student.", show_default="fp32"),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Any other setting; see docs/distillation.md."
        ),
    ] = None,
    teacher_embeddings: Annotated[
        Path | None,
        typer.Option(
            help="The folder of the teacher's embeddings, which runs can share.",
            show_default="teacher-embeddings beside --out",
        ),
    ] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with a model.")
    ] = False,
    resume: Resume = False,
    finish: Finish = False,
    overwrite: OverwriteRun = False,
) -> None:
    """Distil a small query encoder into the embedding space of an index you already have."""
    from pydantic import ValidationError

    from swiftlet.extras import extra

    with extra("training"):
        from training.distillation.distill import distill as run
        from training.distillation.settings import Distillation, Judged
        from training.loop.devices import is_main_process
        from training.recipes.overrides import apply_override
        from training.recipes.validation_errors import describe_errors
    if (test_queries is None) != (qrels is None):
        raise InvalidArgumentError("--test-queries and --qrels belong together: pass both")
    options = {
        "teacher": teacher,
        "student": student,
        "layers": layers,
        "pooling": pooling,
        "project": projection,
        "queries": tuple(map(str, queries or ())),
        "corpora": tuple(map(str, corpus or ())),
        "sentences": sentences,
        "index": None if index is None else str(index),
        "distance": value_of(distance),
        "ranking": ranking,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "precision": value_of(precision),
        "trust_remote_code": trust_remote_code,
    }
    given = {name: value for name, value in options.items() if value is not None}
    if "layers" in given:
        given["layers"] = _layers(given["layers"])
    for override in overrides or ():
        apply_override(given, override)
    try:
        # TOML has only lists; the settings are immutable and have tuples.
        settings = Distillation.model_validate(
            {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
        )
    except ValidationError as error:
        raise InvalidArgumentError(
            describe_errors(error, Distillation, lambda name: _option(name, options))
        ) from error
    test = None
    if test_queries is not None and qrels is not None:
        test = Judged(queries=str(test_queries), qrels=str(qrels))
    if not has_ended(out, resume=resume):
        with ProgressBars(visible=is_main_process()) as progress:
            outcome = run(
                settings,
                out,
                teacher_embeddings=teacher_embeddings,
                test=test,
                resume=resume,
                finish=finish,
                overwrite=overwrite,
                progress=progress,
            )
        if is_main_process():
            _print_outcome(outcome, out)
    if not is_main_process():
        return
    for exported in export_models(out):
        print_next(f"swiftlet serve {index or 'INDEX'} --encoder {exported}")


def _print_outcome(outcome: "DistillationResult", out: Path) -> None:
    output.print(
        f"[bold]{out}[/]: the best checkpoint is of step {outcome.best_step}; its mean cosine "
        f"with the teacher on {outcome.num_held_out:,} texts held out is {outcome.cosine:.4f}",
        soft_wrap=True,
    )
    if outcome.overlaps:
        output.print(_table(outcome.overlaps))


def _layers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError as error:
        raise InvalidArgumentError(
            f"--layers {text!r} is no list of layers: numbers from 0 with commas, such as 0,5, are "
            "expected"
        ) from error


def _option(setting: str, options: Collection[str]) -> str:
    """The option of a setting."""
    name, *within = setting.split(".")
    option = f"--{name.replace('_', '-')}" if name in options else f"--set {name}"
    return ".".join([option, *within])


def _table(overlaps: "Sequence[Overlap]") -> Table:
    """The overlap of the student's and the teacher's results."""
    judged = overlaps[0].teacher_ndcg is not None
    table = Table(
        title="The teacher's 10 best documents among the student's, over "
        f"{overlaps[0].num_queries} queries held out",
        title_justify="left",
    )
    names = ["search", "overlap@10", "recall@100"]
    for name in [*names, *(["nDCG@10 teacher", "student", "kept"] if judged else [])]:
        table.add_column(name, justify="left" if name == "search" else "right")
    for each in overlaps:
        cells = [each.searched, f"{each.overlap_10:.3f}", f"{each.recall_100:.3f}"]
        if each.teacher_ndcg is not None and each.student_ndcg is not None:
            kept = each.student_ndcg / each.teacher_ndcg if each.teacher_ndcg else 0.0
            cells += [f"{each.teacher_ndcg:.4f}", f"{each.student_ndcg:.4f}", f"{kept:.1%}"]
        table.add_row(*cells)
    return table
