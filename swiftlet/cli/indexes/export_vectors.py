"""`swiftlet export-vectors`: the passages and embeddings of an index for other programs."""

from pathlib import Path
from typing import Annotated

import typer

from swiftlet.cli.options import IndexDirectory
from swiftlet.cli.terminal import ProgressBars, count, output


def export_vectors(
    index: IndexDirectory,
    out: Annotated[Path, typer.Option(help="Parquet file to write.")],
    half: Annotated[
        bool, typer.Option("--half", help="Write the embeddings in half precision.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing file.")
    ] = False,
) -> None:
    """Write the passages of an index with their embeddings to a Parquet file."""
    from swiftlet.index.vectors_export import export_vectors as write

    with ProgressBars() as progress:
        number = write(index, out, half=half, overwrite=overwrite, progress=progress)
    output.print(f"[bold]{out}[/]: {count(number, 'passage')}", soft_wrap=True)
