"""Arguments and options that several commands share."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swiftlet import encoders
from swiftlet.address import ADDRESSES
from swiftlet.errors import FilterError, shown
from training.model.poolings import POOLINGS

if TYPE_CHECKING:
    from swiftlet.corpora.lines import SkippedLines
    from swiftlet.corpora.rows import Corpus


class Precision(StrEnum):
    """The precisions an encoder directory may hold."""

    fp32 = "fp32"
    int8 = "int8"
    int8_static = "int8_static"


def complete_encoder(incomplete: str) -> list[str]:
    """The encoders' names that begin so; without any, the shell completes a path."""
    return [name for name in encoders.named() if name.startswith(incomplete)]


EncoderOption = Annotated[
    Path,
    typer.Option(
        help="Directory that `swiftlet export` wrote, or the name of one that ships.",
        autocompletion=complete_encoder,
        show_default="the one that ships for it",
    ),
]
RememberedEncoderOption = Annotated[
    Path | None,
    typer.Option(
        "--encoder",
        help="Directory of the document encoder that the index was built by.",
        autocompletion=complete_encoder,
        show_default="where it was then, or the one that ships",
    ),
]
QueryEncoderOption = Annotated[
    Path | None,
    typer.Option(
        "--encoder",
        help="Directory that `swiftlet export` wrote, or the name of one that ships.",
        autocompletion=complete_encoder,
        show_default="the index's own, or the one that ships",
    ),
]
ServedEncoderOption = Annotated[
    Path | None,
    typer.Option(
        "--encoder",
        help="Directory that `swiftlet export` wrote, or the name of one that ships.",
        autocompletion=complete_encoder,
        show_default="SWIFTLET_ENCODER, the index's own, or shipped",
    ),
]
PrecisionOption = Annotated[
    Precision | None,
    typer.Option(help="The precision of the encoder.", show_default="the encoder's default"),
]
PoolingOption = Annotated[
    str | None,
    typer.Option(help=f"The pooling, if the checkpoint does not define it: {', '.join(POOLINGS)}."),
]
RerankerOption = Annotated[
    Path | None, typer.Option(help="Directory of a re-ranker.", show_default="none")
]
PassageTokens = Annotated[int, typer.Option(help="Longest passage, in tokens, title included.")]
OverlapTokens = Annotated[int, typer.Option(help="Tokens that neighbouring passages share.")]
Truncate = Annotated[
    bool,
    typer.Option("--truncate", help="One passage per document: as much as the encoder reads."),
]
IndexPlace = Annotated[str, typer.Argument(help=f"Index directory, {ADDRESSES}.", metavar="INDEX")]
IndexDirectory = Annotated[Path, typer.Argument(help="Index directory.", metavar="INDEX")]
FromShards = Annotated[
    list[Path] | None,
    typer.Option(
        help="Shards that `swiftlet encode` wrote, or folders of them; may be repeated.",
        show_default="none",
    ),
]
IdField = Annotated[
    str | None,
    typer.Option(help="The field of JSON lines or tables with the id.", show_default="_id or id"),
]
TitleField = Annotated[
    str | None, typer.Option(help="The field with the title.", show_default="title")
]
TextField = Annotated[
    list[str] | None,
    typer.Option(help="The field with the text; may be repeated.", show_default="text"),
]
MetadataField = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata",
        help="A field to keep as metadata; may be repeated.",
        show_default="all further ones",
    ),
]
SkipBadLines = Annotated[
    bool, typer.Option("--skip-bad-lines", help="List bad lines and files instead of stopping.")
]
Threads = Annotated[
    int | None, typer.Option(min=1, help="Encoding threads.", show_default="all cores")
]
AllowUnknown = Annotated[
    bool, typer.Option("--allow-unknown", help="Accept qrels with unknown ids.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue from the run's last checkpoint.")]
Finish = Annotated[
    bool, typer.Option("--finish", help="End a stopped run with its best checkpoint.")
]
OverwriteRun = Annotated[bool, typer.Option("--overwrite", help="Remove an earlier run first.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing artefact.")]


def filter_of(option: str | None) -> Any:
    """The value of the option --filter, or None.

    :raises FilterError: When it is not JSON, or has a number that is not finite.
    """
    from swiftlet.corpora.records import FINITE_JSON

    if option is None:
        return None
    try:
        return FINITE_JSON.decode(option)
    except (ValueError, RecursionError):
        raise FilterError(
            f'--filter is {shown(option)}, but JSON such as {{"year": {{"gte": 2020}}}} is expected'
        ) from None


def value_of(option: StrEnum | None) -> Any:
    """The plain text of a choice, or None."""
    return None if option is None else option.value


def documents_with(
    corpus: Sequence[Path],
    skipped: "SkippedLines | None",
    id_field: str | None,
    title_field: str | None,
    text_field: Sequence[str] | None,
    metadata: Sequence[str] | None,
) -> "Corpus":
    """The corpus, or its documents if fields are named."""
    from swiftlet.corpora.fields import Fields
    from swiftlet.corpora.rows import documents_of

    if not (id_field or title_field or text_field or metadata):
        return corpus
    fields = Fields(id_field, title_field, tuple(text_field or ()), tuple(metadata or ()))
    return documents_of(corpus, skipped=skipped, fields=fields)
