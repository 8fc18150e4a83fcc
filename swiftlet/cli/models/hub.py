"""`swiftlet encoders get`: encoders that do not ship."""

from pathlib import Path
from typing import Annotated

import typer

from swiftlet import encoders
from swiftlet.cli.options import Overwrite
from swiftlet.cli.terminal import messages, print_plain
from swiftlet.errors import InvalidArgumentError

_MODEL = "intfloat/multilingual-e5-small"
_WEIGHT = 0.94
"""The best one for hybrid searches in eight languages: docs/results/languages.md."""
_PROMPTS = {"query": "query: ", "passage": "passage: "}

app = typer.Typer(no_args_is_help=True, help="Encoders that do not ship.")


@app.callback()
def group() -> None:
    """Keep `get` a command of its own, though it is the only one."""


@app.command(epilog="Example: swiftlet encoders get OWNER/NAME")
def get(
    name: Annotated[
        str,
        typer.Argument(
            help="An exported encoder on the hub, or multilingual: multilingual-e5-small, which "
            "is then exported here (extra export).",
            metavar="OWNER/NAME",
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="For multilingual: other weights, a folder or a name on the hub.",
            show_default=_MODEL,
        ),
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            help="For multilingual: keep the tokens of these queries or this corpus alone.",
            show_default="all tokens",
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Get an encoder; --encoder NAME then finds it."""
    from swiftlet.encoders.hub import fetch_encoder
    from swiftlet.manifest import read_manifest

    is_multilingual = Path(name) == encoders.MULTILINGUAL
    if not is_multilingual and (model or vocabulary):
        raise InvalidArgumentError(
            f"--model and --vocabulary are for multilingual, but the encoder is {name!r}: leave "
            "them out"
        )
    if "/" not in name and not is_multilingual:
        raise InvalidArgumentError(
            f"the encoder is {name!r}; OWNER/NAME on the hub is expected, or multilingual"
        )
    out = encoders.obtained() / name.rpartition("/")[2]
    if is_multilingual:
        _export(model or _MODEL, vocabulary, out, overwrite=overwrite)
    else:
        fetch_encoder(name, out, overwrite=overwrite)
    manifest = read_manifest(out)
    about = f"{manifest.dim} dimensions, {manifest.details['source']}"
    print_plain(f"{out.name}: {about}")
    print_plain(f"Next: swiftlet index CORPUS --encoder {out.name} --out INDEX")


def _export(model: str, vocabulary: Path | None, out: Path, *, overwrite: bool) -> None:
    """Make the multilingual encoder of the weights in a folder or on the hub."""
    from swiftlet import disk
    from swiftlet.extras import extra
    from swiftlet.publication import check_target
    from training.model.folders import find_local

    find_local(model)  # before a missing package
    check_target(out, overwrite=overwrite, kind="encoder")
    with extra("export"):
        from export.encoder_directory import export_encoder
    disk.make_directory(out.parent, parents=True, exist_ok=True)
    export_encoder(
        model,
        out,
        overwrite=overwrite,
        progress=lambda work: messages.print(f"{work} …"),
        name=out.name,
        precisions=("int8",),
        vocabulary=vocabulary,
        prompts=_PROMPTS,
        weight=_WEIGHT,
    )
