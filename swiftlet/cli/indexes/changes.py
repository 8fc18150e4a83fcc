"""`swiftlet add`, `delete`, `compact` and `repair`: the documents of an index that is there."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from swiftlet.cli.fields import COLUMNS, documents_with, takes
from swiftlet.cli.options import (
    Corpus,
    IndexDirectory,
    IndexPlace,
    RememberedEncoderOption,
    Threads,
    filter_of,
)
from swiftlet.cli.terminal import ProgressBars, count, print_note, print_result
from swiftlet.search.request import OPTIONS

if TYPE_CHECKING:
    from swiftlet.index.updates.writer import Writer


@takes(fields=COLUMNS)
def add(
    index: IndexPlace,
    corpus: Corpus,
    encoder: RememberedEncoderOption = None,
    threads: Threads = None,
    vector_field: Annotated[
        str | None,
        typer.Option(
            help="The field with the vectors of documents, which no encoder then reads.",
            show_default="embedding",
        ),
    ] = None,
    *,
    fields: dict[str, Any],
) -> None:
    """Add documents to an index; they replace those that have the same ids."""
    from swiftlet.corpora.vector_sources import rows_with_vectors
    from swiftlet.errors import CollectionError
    from swiftlet.index.updates.directory_writer import write

    with write(index, encoder=encoder, threads=threads) as writer:
        before = writer.change
        try:
            with (
                documents_with(corpus, fields) as (named, skipped),
                ProgressBars() as progress,
            ):
                rows = named
                if vector_field is not None:
                    rows = rows_with_vectors(corpus, vector_field, fields)
                changed = writer.put(rows, skipped=skipped, progress=progress)
        except BaseException as error:
            if written := writer.change - before:
                print_note(
                    f"{count(written, 'document')} written before that; the same command writes "
                    "them again, and then the rest"
                )
            if isinstance(error, CollectionError) and error.path == "the documents":
                name = ", ".join(map(str, corpus))
                raise CollectionError(name, error.problem, error.line_number) from error
            raise
        print_result(
            index,
            f"{count(changed.num_documents, 'document')} put, {writer.num_documents:,} in all",
        )
        compact_if_needed(writer)


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
        print_result(
            index,
            f"{count(changed.num_documents, 'document')} deleted, {writer.num_documents:,} left",
        )
        compact_if_needed(writer)


def compact(
    index: IndexDirectory,
    encoder: RememberedEncoderOption = None,
    threads: Threads = None,
) -> None:
    """Merge the changes of an index, so that searches are as fast as after a build."""
    from swiftlet.index.updates.directory_writer import write

    with write(index, encoder=encoder, threads=threads) as writer:
        found = "nothing to merge"
        if _compact(writer):
            found = count(writer.num_documents, "document")
        elif not writer.num_documents:
            found += ", because all documents are deleted; add some, or remove the index"
        print_result(index, found)


def repair(index: IndexDirectory) -> None:
    """Save all changes of an index that can be read, if any is damaged."""
    from swiftlet.errors import shown
    from swiftlet.index.repair import repair as save

    repaired = save(index)
    for number, document_id in repaired.lost.items():
        of_document = f", perhaps of the document {shown(document_id)}" if document_id else ""
        print_note(f"change {number} is lost{of_document}")
    found = f"no change is damaged, {count(repaired.num_changes, 'change')} in all"
    if repaired.kept is not None:
        found = f"{count(repaired.num_changes, 'change')} saved, {len(repaired.lost):,} lost"
        print_note(f"the index as it was is {repaired.kept}")
    print_result(index, found)


def compact_if_needed(writer: "Writer") -> None:
    """Merge the changes if searches would then be faster.

    They are on the disk already, so a merge that fails is a note and no refusal.
    """
    from swiftlet.errors import RetrievalError

    if not writer.needs_merge:
        return
    try:
        _compact(writer)
    except RetrievalError as error:
        print_note(
            f"the changes are written, but could not be merged: {error}. Searches are slower until "
            "`swiftlet compact` has merged them"
        )


def _compact(writer: "Writer") -> bool:
    with ProgressBars() as progress:
        return writer.compact(progress=progress)
