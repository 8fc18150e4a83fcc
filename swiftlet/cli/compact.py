"""`swiftlet compact`: merges the changes of an index into a new base."""

from typing import TYPE_CHECKING

from swiftlet import encoders
from swiftlet.cli.options import EncoderOption, IndexDirectory, Threads
from swiftlet.cli.terminal import ProgressBars, output

if TYPE_CHECKING:
    from swiftlet.indexing.writer import IndexWriter


def compact(
    index: IndexDirectory,
    encoder: EncoderOption = encoders.DEFAULT_ENCODER,
    threads: Threads = None,
) -> None:
    """Merge the changes of an index, so that searches are as fast as after a build."""
    from swiftlet.library.indexes import write

    with write(index, encoder=encoder, threads=threads) as writer:
        merged = _compact(writer)
        output.print(
            f"[bold]{index}[/]: "
            + (f"{writer.num_documents:,} documents" if merged else "nothing to merge"),
            soft_wrap=True,
        )


def compact_if_needed(writer: "IndexWriter") -> None:
    """Merge the changes if they are so many that searches would be faster."""
    if writer.needs_merge:
        _compact(writer)


def _compact(writer: "IndexWriter") -> bool:
    with ProgressBars() as progress:
        return writer.compact(progress=progress)
