"""`swiftlet snapshot`, `export-vectors`, `push` and `pull`: an index in other places and forms."""

from pathlib import Path
from typing import Annotated

import typer

from swiftlet.cli.options import (
    FromShards,
    IndexDirectory,
    Overwrite,
    RememberedEncoderOption,
    Threads,
)
from swiftlet.cli.terminal import ProgressBars, count, counts, print_note, print_result


def snapshot(
    index: IndexDirectory,
    out: Annotated[Path, typer.Option(help="Tar archive to write; tar -xf restores it.")],
    overwrite: Overwrite = False,
) -> None:
    """Copy an index, with its changes at one moment, while it may be written to."""
    from swiftlet.index.snapshot import snapshot as write

    write(index, out, overwrite=overwrite)
    print_result(out, f"{out.stat().st_size:,} bytes")


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
    print_result(out, f"{count(number, 'passage')}")


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
            overwrite=overwrite,
            progress=progress,
        )
    found = "compare every passage"
    if pushed.recall is not None:
        found = f"find {pushed.recall:.1%} of the ten nearest"
    print_result(to, f"{count(pushed.num_passages, 'passage')}; searches by meaning {found}")
    if pushed.without_words:
        print_note(f"searches there are by meaning alone: {pushed.without_words}")


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
    print_result(out, counts(manifest.details))
