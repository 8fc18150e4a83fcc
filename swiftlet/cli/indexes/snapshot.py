"""`swiftlet snapshot`: an index with its changes in one file."""

from pathlib import Path
from typing import Annotated

import typer

from swiftlet.cli.options import IndexDirectory, Overwrite
from swiftlet.cli.terminal import output


def snapshot(
    index: IndexDirectory,
    out: Annotated[Path, typer.Option(help="Tar archive to write; tar -xf restores it.")],
    overwrite: Overwrite = False,
) -> None:
    """Copy an index, with its changes at one moment, while it may be written to."""
    from swiftlet.index.snapshot import snapshot as write

    write(index, out, overwrite=overwrite)
    output.print(f"[bold]{out}[/]: {out.stat().st_size:,} bytes", soft_wrap=True)
