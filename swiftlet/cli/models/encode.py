"""`swiftlet encode`: one part of a corpus to a shard."""

from pathlib import Path
from typing import Annotated

import typer

from swiftlet import encoders
from swiftlet.cli.options import (
    EncoderOption,
    IdField,
    MetadataField,
    OverlapTokens,
    Overwrite,
    PassageTokens,
    PrecisionOption,
    SkipBadLines,
    TextField,
    Threads,
    TitleField,
    Truncate,
    documents_with,
    value_of,
)
from swiftlet.cli.terminal import ProgressBars, count, output, print_skipped, print_unread


def encode(
    corpus: Annotated[list[Path], typer.Argument(help="A corpus, as `swiftlet index` reads it.")],
    shard: Annotated[
        str, typer.Option(help="2/8 for the second of eight: each eighth document.", metavar="I/N")
    ],
    out: Annotated[Path, typer.Option(help="Directory of the shard.")],
    encoder: EncoderOption = encoders.DEFAULT_ENCODER,
    passage_tokens: PassageTokens = 128,
    overlap_tokens: OverlapTokens = 16,
    truncate: Truncate = False,
    half: Annotated[
        bool, typer.Option("--half", help="Store the embeddings in half precision.")
    ] = False,
    precision: PrecisionOption = None,
    threads: Threads = None,
    overwrite: Overwrite = False,
    id_field: IdField = None,
    title_field: TitleField = None,
    text_field: TextField = None,
    metadata: MetadataField = None,
    skip_bad_lines: SkipBadLines = False,
) -> None:
    """Encode a part of a corpus, for `swiftlet index --from-shards`."""
    from swiftlet.corpora.lines import SkippedLines
    from swiftlet.library.indexes import encode as encode_shard

    number, _, of = shard.partition("/")
    if not (number.isdecimal() and of.isdecimal()):
        raise typer.BadParameter(f"--shard is {shard!r}, but one such as 2/8 is expected")
    skipped = SkippedLines() if skip_bad_lines else None
    fields = id_field, title_field, text_field, metadata
    try:
        with ProgressBars() as progress:
            manifest = encode_shard(
                documents_with(corpus, skipped, *fields),
                out,
                shard=(int(number), int(of)),
                encoder=encoder,
                passage_tokens=passage_tokens,
                overlap_tokens=overlap_tokens,
                truncate=truncate,
                precision=value_of(precision),
                half=half,
                threads=threads,
                overwrite=overwrite,
                skipped=skipped,
                progress=progress,
            )
    finally:
        if skipped is not None:
            print_skipped(skipped)
    print_unread(corpus)
    output.print(
        f"[bold]{out}[/]: shard {shard}, {count(manifest.details['num_documents'], 'document')}, "
        f"{count(manifest.details['num_passages'], 'passage')}",
        soft_wrap=True,
    )
