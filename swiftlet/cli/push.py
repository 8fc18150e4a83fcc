"""`swiftlet push`: publishes an index to a Milvus server."""

from pathlib import Path
from typing import Annotated

import typer

from swiftlet import encoders
from swiftlet.cli.options import EncoderOption, FromShards
from swiftlet.cli.terminal import ProgressBars, count, output


def push(
    index: Annotated[
        Path | None, typer.Argument(help="Index directory.", metavar="INDEX", show_default=False)
    ] = None,
    to: Annotated[
        str, typer.Option(help="Collection to write: milvus://HOST:PORT/COLLECTION.")
    ] = ...,  # type: ignore[assignment]
    from_shards: FromShards = None,
    encoder: EncoderOption = encoders.DEFAULT_ENCODER,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing collection.")
    ] = False,
) -> None:
    """Write an index to a collection of a Milvus server, without encoding anything again."""
    from swiftlet.indexing.shards import Shards
    from swiftlet.library.indexes import push as write

    if (index is None) is (not from_shards):
        raise typer.BadParameter("name either an index or --from-shards")
    with ProgressBars() as progress:
        source = Shards(from_shards or ()) if index is None else index
        pushed = write(source, to, encoder=encoder, overwrite=overwrite, progress=progress)
    output.print(
        f"[bold]{to}[/]: {count(pushed.num_passages, 'passage')}; searches by meaning find "
        f"{pushed.recall:.1%} of the ten nearest",
        soft_wrap=True,
    )
    if not pushed.hybrid:
        output.print(
            "Searches there are by meaning alone: words need Milvus 2.4, and an index with the "
            "words of a language",
            soft_wrap=True,
        )
