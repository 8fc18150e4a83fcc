"""`swiftlet encode`: one part of a corpus to a shard."""

from pathlib import Path
from typing import Annotated, Any

import typer

from swiftlet.cli.fields import COLUMNS, ENCODED, documents_with, takes
from swiftlet.cli.options import Corpus, Overwrite, encoder_option
from swiftlet.cli.terminal import ProgressBars, counts, print_note, print_result


@takes(settings=ENCODED, fields=COLUMNS)
def encode(
    corpus: Corpus,
    shard: Annotated[
        str, typer.Option(help="2/8 for the second of eight: each eighth document.", metavar="I/N")
    ],
    out: Annotated[Path, typer.Option(help="Directory of the shard.")],
    encoder: Annotated[str | None, encoder_option("the one that ships")] = None,
    half: Annotated[
        bool, typer.Option("--half", help="Store the embeddings in half precision.")
    ] = False,
    overwrite: Overwrite = False,
    *,
    settings: dict[str, Any],
    fields: dict[str, Any],
) -> None:
    """Encode a part of a corpus, for `swiftlet index --from-shards`."""
    from swiftlet.corpora.collections import unread_files
    from swiftlet.index.building.shards import encode as encode_shard

    number, _, of = shard.partition("/")
    if not (number.isdecimal() and of.isdecimal()):
        raise typer.BadParameter(f"--shard is {shard!r}, but one such as 2/8 is expected")
    unread = unread_files(corpus)
    with (
        documents_with(corpus, fields) as (documents, skipped),
        ProgressBars() as progress,
    ):
        manifest = encode_shard(
            documents,
            out,
            shard=(int(number), int(of)),
            encoder=encoder,
            half=half,
            overwrite=overwrite,
            skipped=skipped,
            progress=progress,
            **settings,
        )
    if unread:
        print_note(unread)
    print_result(out, f"shard {shard}, {counts(manifest.details)}")
