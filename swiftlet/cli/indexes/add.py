"""`swiftlet add`: puts the documents of a corpus into an index."""

from pathlib import Path
from typing import Annotated, Any

import typer

from swiftlet.cli.fields import COLUMNS, documents_with, takes
from swiftlet.cli.indexes.compact import compact_if_needed
from swiftlet.cli.options import IndexPlace, RememberedEncoderOption, Threads
from swiftlet.cli.terminal import ProgressBars, count, output, print_note


@takes(fields=COLUMNS)
def add(
    index: IndexPlace,
    corpus: Annotated[list[Path], typer.Argument(help="A corpus, as swiftlet index takes it.")],
    encoder: RememberedEncoderOption = None,
    threads: Threads = None,
    *,
    fields: dict[str, Any],
) -> None:
    """Add documents to an index; they replace those that have the same ids."""
    from swiftlet.index.updates.directory_writer import write

    with write(index, encoder=encoder, threads=threads) as writer:
        before = writer.change
        try:
            with (
                documents_with(corpus, fields) as (named, skipped),
                ProgressBars() as progress,
            ):
                changed = writer.put(named, skipped=skipped, progress=progress)
        except BaseException:
            if written := writer.change - before:
                print_note(
                    f"{count(written, 'document')} written before that; the same command writes "
                    "them again, and then the rest"
                )
            raise
        output.print(
            f"[bold]{index}[/]: {count(changed.num_documents, 'document')} put, "
            f"{writer.num_documents:,} in all",
            soft_wrap=True,
        )
        compact_if_needed(writer)
