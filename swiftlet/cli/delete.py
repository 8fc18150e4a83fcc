"""`swiftlet delete`: deletes documents of an index."""

from typing import Annotated

import typer

from swiftlet import encoders
from swiftlet.cli.compact import compact_if_needed
from swiftlet.cli.options import EncoderOption, IndexDirectory
from swiftlet.cli.terminal import output, print_note


def delete(
    index: IndexDirectory,
    document_ids: Annotated[list[str], typer.Argument(help="Ids of documents.", metavar="ID…")],
    encoder: EncoderOption = encoders.DEFAULT_ENCODER,
) -> None:
    """Delete documents by their ids."""
    from swiftlet.library.indexes import write
    from swiftlet.retrieval.errors import shown

    with write(index, encoder=encoder) as writer:
        changed = writer.delete(document_ids)
        for document_id in changed.unknown:
            print_note(f"no document has the id {shown(document_id)}")
        compact_if_needed(writer)
        output.print(
            f"[bold]{index}[/]: {changed.num_documents:,} documents deleted, "
            f"{writer.num_documents:,} left",
            soft_wrap=True,
        )
