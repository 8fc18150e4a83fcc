"""`swiftlet pull`: makes an index directory of one on a server."""

from pathlib import Path
from typing import Annotated

import typer

from swiftlet.cli.options import Overwrite, RememberedEncoderOption, Threads
from swiftlet.cli.terminal import ProgressBars, count, output


def pull(
    address: Annotated[
        str, typer.Argument(help="The index on a server: SCHEME://HOST:PORT/….", metavar="ADDRESS")
    ],
    out: Annotated[Path, typer.Option(help="Index directory to write.")],
    encoder: RememberedEncoderOption = None,
    threads: Threads = None,
    overwrite: Overwrite = False,
) -> None:
    """Build an index directory from an index on a server, without encoding anything again."""
    from swiftlet.servers.pull import pull as build

    with ProgressBars() as progress:
        manifest = build(
            address, out, encoder=encoder, threads=threads, overwrite=overwrite, progress=progress
        )
    numbers = manifest.details["num_documents"], manifest.details["num_passages"]
    documents, passages = count(numbers[0], "document"), count(numbers[1], "passage")
    output.print(f"[bold]{out}[/]: {documents}, {passages}", soft_wrap=True)
