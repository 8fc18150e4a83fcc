"""`swiftlet add`: puts the documents of a corpus into an index."""

from pathlib import Path
from typing import Annotated

import typer

from swiftlet.cli.indexes.compact import compact_if_needed
from swiftlet.cli.options import (
    IdField,
    IndexPlace,
    MetadataField,
    RememberedEncoderOption,
    SkipBadLines,
    TextField,
    Threads,
    TitleField,
    documents_with,
)
from swiftlet.cli.terminal import ProgressBars, count, output, print_note, print_skipped


def add(
    index: IndexPlace,
    corpus: Annotated[list[Path], typer.Argument(help="A corpus, as swiftlet index takes it.")],
    encoder: RememberedEncoderOption = None,
    threads: Threads = None,
    id_field: IdField = None,
    title_field: TitleField = None,
    text_field: TextField = None,
    metadata: MetadataField = None,
    skip_bad_lines: SkipBadLines = False,
) -> None:
    """Add documents to an index; they replace those that have the same ids."""
    from swiftlet.corpora.lines import SkippedLines
    from swiftlet.library.indexes import write

    skipped = SkippedLines() if skip_bad_lines else None
    fields = id_field, title_field, text_field, metadata
    with write(index, encoder=encoder, threads=threads) as writer:
        before = writer.change
        try:
            with ProgressBars() as progress:
                changed = writer.put(
                    documents_with(corpus, skipped, *fields),
                    skipped=skipped,
                    progress=progress,
                )
        except BaseException:
            if written := writer.change - before:
                print_note(
                    f"{count(written, 'document')} written before that; the same command writes "
                    "them again, and then the rest"
                )
            raise
        finally:
            if skipped is not None:
                print_skipped(skipped)
        output.print(
            f"[bold]{index}[/]: {count(changed.num_documents, 'document')} put, "
            f"{writer.num_documents:,} in all",
            soft_wrap=True,
        )
        compact_if_needed(writer)
