"""`swiftlet delete`: deletes documents of an index."""

from typing import Annotated

import typer

from swiftlet.cli.indexes.compact import compact_if_needed
from swiftlet.cli.options import IndexPlace, RememberedEncoderOption, filter_of
from swiftlet.cli.terminal import count, output, print_note
from swiftlet.search.request import OPTIONS


def delete(
    index: IndexPlace,
    document_ids: Annotated[
        list[str] | None, typer.Argument(help="Ids of documents.", metavar="[ID…]")
    ] = None,
    filter_: Annotated[str | None, typer.Option("--filter", help=OPTIONS["filter"].about)] = None,
    encoder: RememberedEncoderOption = None,
) -> None:
    """Delete documents by their ids, or all that pass a filter."""
    from swiftlet.errors import shown
    from swiftlet.index.updates.directory_writer import write
    from swiftlet.search.opening import open_searcher

    if bool(document_ids) == (filter_ is not None):
        raise typer.BadParameter("give either ids or --filter")
    with write(index, encoder=encoder) as writer:
        if filter_ is not None:
            with open_searcher(index, encoder=encoder) as searcher:
                document_ids = searcher.ids_to_delete(filter_of(filter_))
        changed = writer.delete(document_ids or [])
        for document_id in changed.unknown:
            print_note(f"no document has the id {shown(document_id)}")
        output.print(
            f"[bold]{index}[/]: {count(changed.num_documents, 'document')} deleted, "
            f"{writer.num_documents:,} left",
            soft_wrap=True,
        )
        compact_if_needed(writer)
