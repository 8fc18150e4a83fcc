"""`swiftlet synonyms`: words that stand for others in searches by words."""

from pathlib import Path
from typing import Annotated

import typer

from swiftlet.cli.options import IndexDirectory
from swiftlet.cli.terminal import print_result


def synonyms(
    index: IndexDirectory,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="Lines such as 'tv, television' or 'k8s => kubernetes'."
        ),
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Take all synonyms away.")] = False,
) -> None:
    """Write synonyms into an index: words that stand for others in searches by words."""
    from swiftlet.index.synonyms import set_synonyms

    if (file is None) != reset:
        raise typer.BadParameter("give a file of synonyms, or --reset alone")
    count = set_synonyms(index, file)
    print_result(index, f"{count:,} {'word has' if count == 1 else 'words have'} synonyms now")
