"""`swiftlet export`: a model to an encoder or re-ranker directory, or a comparison of the two."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swiftlet.cli.options import Overwrite, PoolingOption, Precision, value_of
from swiftlet.cli.terminal import messages, output, print_note
from swiftlet.errors import InvalidArgumentError

if TYPE_CHECKING:
    from export.report import EncoderReport
    from swiftlet.encoders.encoder import Role
    from swiftlet.manifest import Manifest


def export(
    model: Annotated[
        str, typer.Argument(help="Sentence Transformers or Hugging Face model, a folder or a name.")
    ],
    out: Annotated[Path, typer.Option(help="Directory to write, or to verify.")],
    name: Annotated[
        str | None, typer.Option(help="The name of the encoder.", show_default="the model's name")
    ] = None,
    pooling: PoolingOption = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Longest text.", show_default="the model's limit")
    ] = None,
    precision: Annotated[
        list[Precision] | None,
        typer.Option(help="May be repeated.", show_default="all that the model can have"),
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            help="Queries or a corpus to calibrate int8.",
            show_default="random words",
            metavar="FILE",
        ),
    ] = None,
    collection: Annotated[
        Path | None, typer.Option(help="BEIR folder to measure the nDCG change of int8 on.")
    ] = None,
    split: Annotated[str, typer.Option(help="The split of the collection's qrels.")] = "test",
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Write nothing: measure parity, quality and latency of the encoder there.",
        ),
    ] = False,
    dim: Annotated[
        int | None,
        typer.Option(
            min=1, help="Keep the first numbers of an embedding.", show_default="all of them"
        ),
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            help="Queries or a corpus: keep the tokens of these texts alone.",
            show_default="all tokens",
            metavar="FILE",
        ),
    ] = None,
    query_prompt: Annotated[
        str | None,
        typer.Option(help="What stands before queries.", show_default="the model's own prompt"),
    ] = None,
    passage_prompt: Annotated[
        str | None,
        typer.Option(help="What stands before passages.", show_default="the model's own prompt"),
    ] = None,
    weight: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Of a cross-encoder: the weight of its scores beside a search's scores.",
            show_default="as its training has chosen, or 1",
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write an encoder or a cross-encoder in ONNX, or measure an encoder again."""
    from swiftlet.extras import extra

    with extra("export"):
        from export.encoder_directory import export_encoder
        from export.reranker_directory import export_reranker
        from export.router import export_router, is_router
        from export.verification import verify_encoder
        from training.model.loading import find_model, is_cross_encoder
    precisions = [value_of(option) for option in precision or ()]
    if is_cross_encoder(find_model(model)):
        of_encoders = {
            "--pooling": pooling, "--calibrate": calibrate, "--collection": collection,
            "--verify": verify or None, "--query-prompt": query_prompt,
            "--passage-prompt": passage_prompt, "--dim": dim, "--vocabulary": vocabulary,
        }  # fmt: skip
        if given := [option for option, value in of_encoders.items() if value is not None]:
            raise InvalidArgumentError(
                f"{model} is a cross-encoder, which takes no {given[0]}: leave it out"
            )
        manifest = export_reranker(
            model,
            out,
            name=name,
            max_tokens=max_tokens,
            precisions=precisions or None,
            weight=weight,
            overwrite=overwrite,
            progress=_print_progress,
        )
        _print_reranker(manifest, out)
        return
    if weight is not None:
        raise InvalidArgumentError(
            f"{model} is an encoder, which takes no --weight: it is for cross-encoders"
        )
    if two_sides := is_router(find_model(model)):
        others = {"--pooling": pooling, "--collection": collection, "--verify": verify or None,
                  "--vocabulary": vocabulary}  # fmt: skip
        if given := [option for option, value in others.items() if value is not None]:
            raise InvalidArgumentError(
                f"{model} is a Router of two encoders, which takes no {given[0]}: leave it out"
            )
    if verify:
        writing = {
            "--name": name, "--calibrate": calibrate, "--overwrite": overwrite or None,
            "--query-prompt": query_prompt, "--passage-prompt": passage_prompt, "--dim": dim,
            "--vocabulary": vocabulary,
        }  # fmt: skip
        if contradicting := [option for option, value in writing.items() if value is not None]:
            raise InvalidArgumentError(
                f"{contradicting[0]} is for writing {out}, but --verify only measures it"
            )
        report = verify_encoder(
            model,
            out,
            pooling=pooling,
            max_tokens=max_tokens,
            precisions=precisions or None,
            collection=collection,
            split=split,
            progress=_print_progress,
        )
        _print_verified(report, out)
        return
    prompts: dict[Role, str | None] = {"query": query_prompt, "passage": passage_prompt}
    options: dict[str, Any] = {
        "name": name, "max_tokens": max_tokens, "precisions": precisions or None,
        "calibrate": calibrate, "dim": dim, "overwrite": overwrite, "progress": _print_progress,
        "prompts": {role: prompt for role, prompt in prompts.items() if prompt is not None},
    }  # fmt: skip
    if two_sides:
        for tower, manifest in export_router(model, out, **options).items():
            _print_encoder(manifest, out / tower)
        return
    manifest = export_encoder(
        model,
        out,
        pooling=pooling,
        collection=collection,
        split=split,
        vocabulary=vocabulary,
        **options,
    )
    _print_encoder(manifest, out)


def _print_encoder(manifest: "Manifest", out: Path) -> None:
    from export.report import EncoderReport

    output.print(f"[bold]{out}[/]: {manifest.dim} dimensions", soft_wrap=True)
    for role, prompt in manifest.details.get("prompts", {}).items():
        output.print(f"Before each {role}: {prompt!r}", markup=False, soft_wrap=True)
    _print_report(EncoderReport.of_manifest(manifest))


def _print_reranker(manifest: "Manifest", out: Path) -> None:
    parities = ", ".join(
        f"{precision} {parity['correlation']:.6f}"
        for precision, parity in manifest.details["parity"].items()
    )
    output.print(
        f"[bold]{out}[/]: a re-ranker of weight {manifest.details['weight']:g}, by default "
        f"{manifest.details['default_precision']}; "
        f"correlation with the scores of torch: {parities}",
        soft_wrap=True,
    )
    if manifest.details["weight"] == 0:
        print_note("with a weight of 0, it never changes an order: give it another by --weight")


def _print_verified(report: "EncoderReport", out: Path) -> None:
    """Print the report; refuse an encoder that is not good enough.

    :raises ExportError: When fp32 or the default precision is not good enough.
    """
    from export.errors import ExportError

    _print_report(report, leave_out=("fp32", report.default))
    shortfalls = report.shortfalls()
    for precision in ("fp32", report.default):
        if precision in shortfalls:
            raise ExportError(f"{out} is not good enough: {shortfalls[precision]}")


def _print_report(report: "EncoderReport", leave_out: Sequence[str] = ()) -> None:
    for table in report.tables():
        output.print(table)
    for precision, sentence in report.shortfalls().items():
        if precision not in leave_out:
            print_note(sentence)


def _print_progress(work: str) -> None:
    messages.print(f"{work} …")
