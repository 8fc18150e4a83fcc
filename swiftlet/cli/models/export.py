"""`swiftlet export`: a model to an encoder or re-ranker directory, or a comparison of the two."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typing_extensions import override

from export.settings import EncoderSettings, ExportSettings, RerankerSettings
from swiftlet.cli.fields import parameters, takes
from swiftlet.cli.options import Overwrite
from swiftlet.cli.terminal import messages, output, print_note, print_plain, print_result
from swiftlet.errors import InvalidArgumentError
from swiftlet.extras import extra

if TYPE_CHECKING:
    from export.report import EncoderReport
    from swiftlet.manifest import Manifest

_BY_MODEL = "by-model"
_KINDS = {
    "encoder": "an encoder",
    "reranker": "a cross-encoder",
    "router": "a Router of two encoders",
}

_OF_VERIFY = ("pooling", "max_tokens", "precisions", "collection", "split")

Model = Annotated[
    str,
    typer.Argument(
        help="Sentence Transformers or Hugging Face model, a folder or a name.", metavar="MODEL"
    ),
]
Out = Annotated[Path, typer.Option(help="Directory to write.")]
QueryPrompt = Annotated[
    str | None,
    typer.Option(help="What stands before queries.", show_default="the model's own prompt"),
]
PassagePrompt = Annotated[
    str | None,
    typer.Option(help="What stands before passages.", show_default="the model's own prompt"),
]


class _Group(TyperGroup):
    """Takes `swiftlet export MODEL --out DIR`, too, without the name of a command."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._by_model = self.commands.pop(_BY_MODEL)

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self._by_model if cmd_name == _BY_MODEL else super().get_command(ctx, cmd_name)

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = not args or args[0] in self.commands or args[0] in ctx.help_option_names
        return super().parse_args(ctx, args if named else [_BY_MODEL, *args])


class _ByModel(TyperCommand):
    """Has the options of all commands, and runs the one that fits the model."""

    @override
    def get_params(self, ctx: Any) -> list[Any]:
        commands = reversed(ctx.parent.command.commands.values())
        # The first command that has an option says what it looks like.
        found = {each.name: each for command in commands for each in command.params}
        return [*found.values(), *super().get_params(ctx)]

    @override
    def invoke(self, ctx: Any) -> Any:
        values, names = ctx.params, ctx.parent.command.commands
        kind = _kind_of(values["model"])
        is_measured = values["verify"] and kind == "encoder"
        command = names["verify" if is_measured else kind]
        taken = {each.name for each in command.params}
        for each in self.get_params(ctx):
            option, is_given = each.opts[0], ctx.get_parameter_source(each.name).name != "DEFAULT"
            if not is_given or each.name in taken or (is_measured and each.name == "verify"):
                continue
            if is_measured:
                raise InvalidArgumentError(
                    f"{option} is for writing {values['out']}, but --verify only measures it"
                )
            raise InvalidArgumentError(
                f"{values['model']} is {_KINDS[kind]}, which takes no {option}: leave it out"
            )
        return ctx.invoke(command.callback, **{name: values[name] for name in taken})


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    help="Write a model in ONNX, or measure an encoder again.\n\n"
    "`swiftlet export MODEL --out DIR` takes the command that fits the model.",
)


@app.command(epilog="Example: swiftlet export encoder model/ --out encoder")
@takes(settings=parameters(EncoderSettings))
def encoder(
    model: Model,
    out: Out,
    query_prompt: QueryPrompt = None,
    passage_prompt: PassagePrompt = None,
    overwrite: Overwrite = False,
    *,
    settings: dict[str, Any],
) -> None:
    """Write an encoder in ONNX."""
    from swiftlet.publication import check_target
    from training.model.folders import find_local

    find_local(model)  # before a missing package
    check_target(out, overwrite=overwrite, kind="encoder")
    with extra("export"):
        from export.encoder_directory import export_encoder
    settings["prompts"] = _prompts(query_prompt, passage_prompt)
    manifest = export_encoder(model, out, overwrite=overwrite, progress=_print_progress, **settings)
    _print_encoder(manifest, out)


@app.command(epilog="Example: swiftlet export reranker cross-encoder/ --out reranker")
@takes(settings=parameters(RerankerSettings))
def reranker(
    model: Model, out: Out, overwrite: Overwrite = False, *, settings: dict[str, Any]
) -> None:
    """Write a cross-encoder in ONNX, which orders the documents of a search anew."""
    from swiftlet.publication import check_target
    from training.model.folders import find_local

    find_local(model)
    check_target(out, overwrite=overwrite, kind="reranker")
    with extra("export"):
        from export.reranker_directory import export_reranker
    manifest = export_reranker(
        model, out, overwrite=overwrite, progress=_print_progress, **settings
    )
    _print_reranker(manifest, out)


@app.command(epilog="Example: swiftlet export router router/ --out pair")
@takes(settings=[*parameters(ExportSettings), *parameters(EncoderSettings, ["dim"])])
def router(
    model: Model,
    out: Out,
    query_prompt: QueryPrompt = None,
    passage_prompt: PassagePrompt = None,
    overwrite: Overwrite = False,
    *,
    settings: dict[str, Any],
) -> None:
    """Write the two encoders of a Router in ONNX, one for queries and one for documents."""
    from training.model.folders import find_local

    find_local(model)
    with extra("export"):
        from export.router import export_router
    settings["prompts"] = _prompts(query_prompt, passage_prompt)
    manifests = export_router(model, out, overwrite=overwrite, progress=_print_progress, **settings)
    for tower, manifest in manifests.items():
        _print_encoder(manifest, out / tower)


@app.command(epilog="Example: swiftlet export verify model/ encoder")
@takes(settings=parameters(EncoderSettings, _OF_VERIFY))
def verify(
    model: Model,
    out: Annotated[Path, typer.Argument(help="Encoder directory.", metavar="ENCODER")],
    *,
    settings: dict[str, Any],
) -> None:
    """Write nothing: measure parity, quality and latency of an encoder directory again."""
    from swiftlet.manifest import read_manifest
    from training.model.folders import find_local

    find_local(model)
    read_manifest(out, "encoder")
    with extra("export"):
        from export.errors import ExportError
        from export.verification import verify_encoder
    report = verify_encoder(model, out, progress=_print_progress, **settings)
    needed = ("fp32", report.default)
    _print_report(report, leave_out=needed)
    if bad := [sentence for each, sentence in report.shortfalls().items() if each in needed]:
        raise ExportError(f"{out} is not good enough: {bad[0]}")


@app.command(_BY_MODEL, cls=_ByModel, epilog="Example: swiftlet export model/ --out encoder")
def _by_model(
    verify: Annotated[
        bool, typer.Option("--verify", help="Write nothing: measure the encoder there.")
    ] = False,
) -> None:
    """Write a model in ONNX as what it is: an encoder, a re-ranker or a Router."""


def _kind_of(model: str) -> str:
    from training.model.folders import find_model, is_cross_encoder, is_router

    with extra("export"):
        folder = find_model(model)
    if is_cross_encoder(folder):
        return "reranker"
    return "router" if is_router(folder) else "encoder"


def _prompts(query: str | None, passage: str | None) -> dict[str, str]:
    given = {"query": query, "passage": passage}
    return {role: prompt for role, prompt in given.items() if prompt is not None}


def _print_encoder(manifest: "Manifest", out: Path) -> None:
    from export.report import EncoderReport

    print_result(out, f"{manifest.dim} dimensions")
    for role, prompt in manifest.details.get("prompts", {}).items():
        print_plain(f"Before each {role}: {prompt!r}")
    _print_report(EncoderReport.of_manifest(manifest))


def _print_reranker(manifest: "Manifest", out: Path) -> None:
    details = manifest.details
    parities = ", ".join(
        f"{precision} {parity['correlation']:.6f}"
        for precision, parity in details["parity"].items()
    )
    print_result(
        out,
        f"a re-ranker of weight {details['weight']:g}, by default "
        f"{details['default_precision']}; correlation with the scores of torch: {parities}",
    )
    if details["weight"] == 0:
        print_note("with a weight of 0, it never changes an order: give it another by --weight")


def _print_report(report: "EncoderReport", leave_out: Sequence[str] = ()) -> None:
    for table in report.tables():
        output.print(table)
    for precision, sentence in report.shortfalls().items():
        if precision not in leave_out:
            print_note(sentence)


def _print_progress(work: str) -> None:
    messages.print(f"{work} …")
