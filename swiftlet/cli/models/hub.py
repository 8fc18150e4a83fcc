"""`swiftlet encoders get`: encoders from the Hugging Face hub."""

from typing import Annotated

import typer

from swiftlet import encoders
from swiftlet.cli.options import Overwrite
from swiftlet.cli.terminal import print_plain
from swiftlet.errors import InvalidArgumentError

app = typer.Typer(no_args_is_help=True, help="Encoders that do not ship.")


@app.callback()
def group() -> None:
    """Keep `get` a command of its own, though it is the only one."""


@app.command(epilog="Example: swiftlet encoders get OWNER/NAME")
def get(
    name: Annotated[
        str, typer.Argument(help="An exported encoder on the hub.", metavar="OWNER/NAME")
    ],
    overwrite: Overwrite = False,
) -> None:
    """Download an encoder; --encoder NAME then finds it."""
    from swiftlet.encoders.hub import fetch_encoder
    from swiftlet.manifest import read_manifest

    if "/" not in name:
        raise InvalidArgumentError(f"the encoder is {name!r}; OWNER/NAME on the hub is expected")
    out = encoders.obtained() / name.rpartition("/")[2]
    fetch_encoder(name, out, overwrite=overwrite)
    manifest = read_manifest(out)
    about = f"{manifest.dim} dimensions, {manifest.details['source']}"
    print_plain(f"{out.name}: {about}")
    print_plain(f"Next: swiftlet index CORPUS --encoder {out.name} --out INDEX")
