"""`swiftlet distill`: trains a small query encoder for an existing index."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from swiftlet.arguments import Option
from swiftlet.cli.fields import flag_of, parameters, takes
from swiftlet.cli.models.exporting import export_models, has_ended
from swiftlet.cli.options import Finish, OverwriteRun, Resume
from swiftlet.cli.terminal import ProgressBars, figures_table, output, print_plain, print_result
from swiftlet.errors import InvalidArgumentError
from training.model.poolings import POOLINGS

if TYPE_CHECKING:
    from training.distillation.distill import DistillationResult
    from training.distillation.overlap import Overlap
    from training.distillation.verdict import Verdict


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings of a distillation that have an option of their own; `--set` takes any."""

    queries: Annotated[
        tuple[Path, ...],
        Option("A query log: text, JSONL, TSV or a BEIR folder; may be repeated."),
    ] = ()
    corpora: Annotated[
        tuple[Path, ...],
        Option(
            "A corpus or index to take sentences and titles from; may be repeated.",
            flag="--corpus",
        ),
    ] = ()
    sentences: Annotated[
        int | None, Option("The largest number of sentences.", least=1, unset="200000")
    ] = None
    layers: Annotated[
        str | None, Option("Layers that are kept, such as 0,5.", unset="all of the student's")
    ] = None
    student: Annotated[
        str | None,
        Option(
            "Another checkpoint to start from.", unset="the teacher, or the two layers that ship"
        ),
    ] = None
    pooling: Annotated[
        str | None,
        Option(f"The pooling, if the checkpoint does not define it: {', '.join(POOLINGS)}."),
    ] = None
    project: Annotated[
        bool | None,
        Option(
            "Learn a projection to the teacher's width.",
            flag="--projection/--no-projection",
            unset="for another checkpoint",
        ),
    ] = None
    index: Annotated[
        Path | None,
        Option("Index to compare both encoders on; without a teacher, to learn from."),
    ] = None
    pairs: Annotated[
        bool | None,
        Option(
            "Learn from the index's passages and their vectors, too.",
            flag="--pairs/--no-pairs",
            unset="without a teacher",
        ),
    ] = None
    projection_only: Annotated[
        bool, Option("Only fit a projection to the index's passages, in seconds.")
    ] = False
    minutes: Annotated[
        float | None, Option("End the training after so many minutes.", unset="no limit")
    ] = None
    distance: Annotated[
        Literal["euclidean", "cosine"] | None,
        Option(
            "The distance that is minimised.",
            unset="euclidean; look-up or by an index alone: cosine",
        ),
    ] = None
    ranking: Annotated[
        float | None, Option("Weight of a contrastive term on the index's documents.", unset="0")
    ] = None
    epochs: Annotated[
        float | None,
        Option(
            "How often each text is used.",
            unset="10, look-up: 4; by an index alone 1.5, look-up: 2",
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        Option("Texts per step.", least=2, unset="64; look-up with a teacher: 512"),
    ] = None
    learning_rate: Annotated[
        float | None,
        Option("The learning rate after the warm-up.", unset="0.0005; look-up: 0.003"),
    ] = None
    precision: Annotated[
        Literal["fp32", "bf16", "fp16"] | None,
        Option(
            "The precision of the student.",
            unset="fp32; layers by an index alone: bf16 where the processor has it",
        ),
    ] = None
    trust_remote_code: Annotated[bool, Option("Run code that comes with a model.")] = False


_OPTIONS = parameters(_Settings)


@takes(given=_OPTIONS)
def distill(
    out: Annotated[Path, typer.Option(help="Directory of the run.")],
    teacher: Annotated[
        str | None,
        typer.Option(
            help="The query encoder to imitate: a folder, a name on the hub, MODULE:FUNCTION, or "
            "the address of an OpenAI-compatible API.",
            show_default="none: an index's own vectors",
        ),
    ] = None,
    test_queries: Annotated[
        Path | None, typer.Option(help="Judged queries for the index; needs --qrels.")
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option(help="Their BEIR or TREC qrels; needs --test-queries.")
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
    resume: Resume = False,
    finish: Finish = False,
    overwrite: OverwriteRun = False,
    *,
    given: dict[str, Any],
) -> None:
    """Distil a small query encoder into the embedding space of an index you already have.

    With a teacher it learns from texts. With an index alone a projection is fitted to the index's
    passages, in seconds, and then the encoder is trained, in minutes; --projection-only ends before
    the training.
    """
    from pydantic import ValidationError

    from swiftlet.extras import extra
    from training.recipes.overrides import apply_override

    if (test_queries is None) != (qrels is None):
        raise InvalidArgumentError("--test-queries and --qrels belong together: pass both")
    content = {name: _plain(value) for name, value in given.items()}
    if Path(file := content.get("index") or "").is_file():
        raise InvalidArgumentError(
            f"{file} is a file, and no index: make one by swiftlet adopt {file} --texts CORPUS "
            "--out INDEX, and name that"
        )
    if "layers" in given:
        content["layers"] = _layers(given["layers"])
    if teacher is not None:
        content["teacher"] = teacher
    for override in overrides or ():
        apply_override(content, override)
    with extra("training"):
        from training.distillation.distill import distill as run
        from training.distillation.settings import Distillation, Judged
        from training.distillation.verdict import Verdict
        from training.recipes.validation_errors import describe_errors
    try:
        # TOML has only lists; the settings are immutable and have tuples.
        settings = Distillation.model_validate(
            {name: tuple(v) if isinstance(v, list) else v for name, v in content.items()}
        )
    except ValidationError as error:
        raise InvalidArgumentError(describe_errors(error, Distillation, _option)) from error
    test = None
    if test_queries is not None and qrels is not None:
        test = Judged(queries=str(test_queries), qrels=str(qrels))
    if not has_ended(out, resume=resume):
        with ProgressBars() as progress:
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
        _print_outcome(outcome, out, "the index" if teacher is None else "the teacher")
    exported_models, verdict = export_models(out), Verdict.of_run(out)
    for exported in exported_models:
        if verdict is not None:
            print_result(exported, sentence_of(verdict))
        if verdict is not None and not verdict.is_good:
            continue
        print_plain(f"Next: swiftlet serve {given.get('index', 'INDEX')} --encoder {exported}")


def _print_outcome(outcome: "DistillationResult", out: Path, imitated: str) -> None:
    told = f"the best checkpoint is of step {outcome.best_step}"
    if outcome.verdict is not None and outcome.best_step == 0:
        told = "this is the closed form"
    if outcome.verdict is None or outcome.best_step == 0:  # else scores are learnt, not cosines
        told += (
            f"; its mean cosine with {imitated} on {outcome.num_held_out:,} texts held out is "
            f"{outcome.cosine:.4f}"
        )
    print_result(out, told)
    if outcome.overlaps:
        output.print(_table(outcome.overlaps))


def sentence_of(verdict: "Verdict") -> str:
    """What to do with an encoder that has learnt from an index."""
    from training.distillation.verdict import (
        LEAST_KEPT,
        LEAST_OF_KNOWN_ITEMS,
        LEAST_OF_PASSAGES,
        LEAST_OF_RELATED,
    )

    found = f"of the 10 nearest passages of a held-out passage it finds {verdict.passages:.0%}; "
    bound = f"at least {LEAST_OF_PASSAGES:.0%} of these passages"
    if verdict.known_items is None:
        found += (
            "nDCG@10 is not measured (no sentence or title of two words with a space between them "
            "was held out)"
        )
    else:
        found += (
            f"nDCG@10 of held-out sentences and titles, each a query for its document, is "
            f"{verdict.known_items:.3f}"
        )
        bound = f"an nDCG@10 of {LEAST_OF_KNOWN_ITEMS:g}"
    if verdict.own_known_items is not None:
        found += f", and {verdict.own_known_items:.3f} with the index's own query encoder"
        bound = f"{LEAST_KEPT:.0%} of that"
    if verdict.overlap is not None:
        found += f"; their overlap@10 is {verdict.overlap:.3f}"
    if verdict.before is not None and verdict.trained is not None:
        if verdict.trained > verdict.before:
            found += f"; before the training the figure was {verdict.before:.3f}"
        else:
            found += (
                f"; the training reached {verdict.trained:.3f} at most, so the closed form is "
                "kept: --projection-only leaves the training out"
            )
    if verdict.is_good:
        gains = verdict.trained is None and verdict.may_gain
        further = "; a training, without --projection-only, mostly takes it further"
        return f"use it: {found}{further if gains else ''}"
    reads = ""
    if verdict.cannot_read:
        reads = (
            f"it does not know {verdict.unknown:.0%} of the tokens of held-out passages: name a "
            "--student that reads their language, or "
        )
    elif verdict.figure < LEAST_OF_RELATED:
        reads += "do the texts belong to these vectors, in this order? If they do, "
    if verdict.trained is None and verdict.may_gain:
        reads += "train it without --projection-only, or "
    return (
        f"not good enough yet: {found}, but {bound} is expected; {reads}give "
        f"{verdict.wanted_queries:,} queries of your users and the teacher of their vectors, too "
        "(--pairs --queries LOG --teacher MODEL)"
    )


def _plain(value: Any) -> Any:
    """An option as the settings take it: paths are texts there."""
    if isinstance(value, list):
        return [*map(_plain, value)]
    return str(value) if isinstance(value, Path) else value


def _layers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError as error:
        raise InvalidArgumentError(
            f"--layers {text!r} is no list of layers: numbers from 0 with commas, such as 0,5, are "
            "expected"
        ) from error


def _option(setting: str) -> str:
    """The option of a setting."""
    name, *within = setting.split(".")
    flags = {each.name: flag_of(each).partition("/")[0] for each in _OPTIONS}
    flags["teacher"] = "--teacher"
    return ".".join([flags.get(name, f"--set {name}"), *within])


def _table(overlaps: "Sequence[Overlap]") -> Table:
    """The overlap of the student's and the teacher's results."""
    judged = overlaps[0].teacher_ndcg is not None
    table = figures_table(
        "The teacher's 10 best documents among the student's, over "
        f"{overlaps[0].num_queries} queries held out",
        *["search", "overlap@10", "recall@100"],
        *(["nDCG@10 teacher", "student", "kept"] if judged else []),
    )
    for each in overlaps:
        cells = [each.searched, f"{each.overlap_10:.3f}", f"{each.recall_100:.3f}"]
        if each.teacher_ndcg is not None and each.student_ndcg is not None:
            kept = each.student_ndcg / each.teacher_ndcg if each.teacher_ndcg else 0.0
            cells += [f"{each.teacher_ndcg:.4f}", f"{each.student_ndcg:.4f}", f"{kept:.1%}"]
        table.add_row(*cells)
    return table
