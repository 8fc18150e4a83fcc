"""`swiftlet push`: publishes an index to a server."""

from pathlib import Path
from typing import Annotated

import typer

from swiftlet.cli.options import FromShards, RememberedEncoderOption
from swiftlet.cli.terminal import ProgressBars, count, output, print_note


def push(
    index: Annotated[
        Path | None, typer.Argument(help="Index directory.", metavar="INDEX", show_default=False)
    ] = None,
    to: Annotated[str, typer.Option(help="Where to write it: SCHEME://HOST:PORT/….")] = ...,  # type: ignore[assignment]
    from_shards: FromShards = None,
    encoder: RememberedEncoderOption = None,
    language: Annotated[
        str | None,
        typer.Option(help="With --from-shards: the language of the words.", show_default="english"),
    ] = None,
    facet: Annotated[
        list[str] | None,
        typer.Option(help="With --from-shards: a field that filters often name. May be repeated."),
    ] = None,
    index_type: Annotated[
        str | None,
        typer.Option(
            help="One of the types that the server has, such as FLAT or HNSW.",
            show_default="by the number of passages",
        ),
    ] = None,
    bulk_insert: Annotated[
        str | None,
        typer.Option(
            help="Send passages as Parquet files instead of in requests, through a folder or "
            "s3://BUCKET/PATH that the server reads, too.",
            metavar="PLACE",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing index there.")
    ] = False,
) -> None:
    """Write an index to a server, without encoding anything again."""
    from swiftlet.index.building.shards import Shards
    from swiftlet.index.lexical import DEFAULT_LANGUAGE
    from swiftlet.servers.push import push as write

    if (index is None) is (not from_shards):
        raise typer.BadParameter("name either an index or --from-shards")
    if index is not None and (language is not None or facet):
        name = "--facet" if facet else "--language"
        raise typer.BadParameter(f"{name} is for --from-shards: an index has its own")
    with ProgressBars() as progress:
        source = Shards(from_shards or ()) if index is None else index
        pushed = write(
            source,
            to,
            encoder=encoder,
            language=language or DEFAULT_LANGUAGE,
            facets=facet or (),
            index_type=index_type,
            bulk_insert=bulk_insert,
            overwrite=overwrite,
            progress=progress,
        )
    found = "compare every passage"
    if pushed.recall is not None:
        found = f"find {pushed.recall:.1%} of the ten nearest"
    output.print(
        f"[bold]{to}[/]: {count(pushed.num_passages, 'passage')}; searches by meaning {found}",
        soft_wrap=True,
    )
    if pushed.without_words:
        print_note(f"searches there are by meaning alone: {pushed.without_words}")
