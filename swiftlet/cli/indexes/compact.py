"""`swiftlet compact`: merges the changes of an index into a new base."""

from typing import TYPE_CHECKING

from swiftlet.cli.options import IndexDirectory, RememberedEncoderOption, Threads
from swiftlet.cli.terminal import ProgressBars, count, output, print_note

if TYPE_CHECKING:
    from swiftlet.index.updates.writer import Writer


def compact(
    index: IndexDirectory,
    encoder: RememberedEncoderOption = None,
    threads: Threads = None,
) -> None:
    """Merge the changes of an index, so that searches are as fast as after a build."""
    from swiftlet.index.updates.directory_writer import write

    with write(index, encoder=encoder, threads=threads) as writer:
        merged = _compact(writer)
        output.print(
            f"[bold]{index}[/]: "
            + (count(writer.num_documents, "document") if merged else _nothing(writer)),
            soft_wrap=True,
        )


def _nothing(writer: "Writer") -> str:
    if writer.num_documents:
        return "nothing to merge"
    return "nothing to merge, because all documents are deleted; add some, or remove the index"


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
