"""`swiftlet index`: a corpus to an index directory."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swiftlet import encoders
from swiftlet.cli.options import (
    FromShards,
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
    complete_encoder,
    documents_with,
    value_of,
)
from swiftlet.cli.terminal import ProgressBars, count, output, print_skipped, print_unread

if TYPE_CHECKING:
    from swiftlet.corpora.rows import Corpus

_OF_SHARDS = (
    "passage_tokens", "overlap_tokens", "truncate", "precision", "skip_bad_lines", "id_field",
    "title_field", "text_field", "metadata",
)  # fmt: skip
"""What shards have been encoded with."""
_DEFAULT = "ParameterSource.DEFAULT"


def index(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Index directory to write.")],
    corpus: Annotated[
        list[Path] | None,
        typer.Argument(
            help="A folder of files, a BEIR folder, a JSONL, CSV, Parquet, Arrow, TSV or ZIP file, "
            "a pattern of such files, or irds:NAME; or several of these.",
            show_default=False,
            metavar="CORPUS",
        ),
    ] = None,
    from_shards: FromShards = None,
    encoder: Annotated[
        Path | None,
        typer.Option(
            help="Directory that `swiftlet export` wrote, or the name of one that ships.",
            autocompletion=complete_encoder,
            show_default="the one that ships, or that encoded the shards",
        ),
    ] = None,
    passage_tokens: PassageTokens = 128,
    overlap_tokens: OverlapTokens = 16,
    truncate: Truncate = False,
    factory: Annotated[
        str | None,
        typer.Option(
            help="The type of index, a FAISS factory string.", show_default="chosen by size"
        ),
    ] = None,
    language: Annotated[
        str,
        typer.Option(
            help="The language of the words: english, german … or none, which keeps them whole; "
            "or word-pieces, or word-pieces-and-pairs."
        ),
    ] = "english",
    dense_only: Annotated[
        bool, typer.Option("--dense-only", help="No lexical index: search by meaning alone.")
    ] = False,
    facet: Annotated[
        list[str] | None,
        typer.Option(help="A field of the metadata to count and choose by; may be repeated."),
    ] = None,
    adapt_queries: Annotated[
        bool,
        typer.Option("--adapt-queries", help="Adapt a query encoder to the corpus, for searches."),
    ] = False,
    student: Annotated[
        Path | None,
        typer.Option(
            help="The one to adapt, as for distill.",
            show_default="the look-up encoder",
            autocompletion=complete_encoder,
        ),
    ] = None,
    queries: Annotated[
        list[Path] | None,
        typer.Option(help="A query log to adapt it to, too; may be repeated."),
    ] = None,
    precision: PrecisionOption = None,
    threads: Threads = None,
    overwrite: Overwrite = False,
    id_field: IdField = None,
    title_field: TitleField = None,
    text_field: TextField = None,
    metadata: MetadataField = None,
    skip_bad_lines: SkipBadLines = False,
) -> None:
    """Build an index from a corpus. After an interruption, run the same command to resume it."""
    from swiftlet.corpora.lines import SkippedLines
    from swiftlet.extras import extra
    from swiftlet.index.building.assembly import FOUND
    from swiftlet.index.building.shards import Shards
    from swiftlet.index.document_encoder import document_encoder_of
    from swiftlet.library.indexes import build

    if (student is not None or queries) and not adapt_queries:
        raise typer.BadParameter("--student and --queries are for --adapt-queries: pass it, too")
    if bool(corpus) is bool(from_shards):
        raise typer.BadParameter("name either a corpus or --from-shards")
    if dense_only and f"{context.get_parameter_source('language')}" != _DEFAULT:
        raise typer.BadParameter("--language is for words, and --dense-only leaves them out")
    given = [name for name in _OF_SHARDS if f"{context.get_parameter_source(name)}" != _DEFAULT]
    if from_shards and given:
        option = given[0].replace("_", "-")
        raise typer.BadParameter(f"--{option} is for a corpus, but shards are encoded already")
    skipped = SkippedLines() if skip_bad_lines else None
    fields = id_field, title_field, text_field, metadata
    try:
        with ProgressBars() as progress:
            finish = None
            source: Corpus | Shards
            if not corpus:
                source = Shards(from_shards or ())
                encoder = encoder or document_encoder_of(source.details)
            else:
                source = documents_with(corpus, skipped, *fields)
                encoder = encoder or encoders.DEFAULT_ENCODER
            if adapt_queries:
                with extra("export"):
                    from export.encoder_directory import export_encoder
                    from training.adaptation.adaptation import Adaptation
                finish = Adaptation(
                    encoders.find(student or encoders.LOOKUP_QUERY_ENCODER),
                    encoders.find(encoder),
                    export_encoder,
                    queries=queries or (),
                    progress=progress,
                )
            manifest = build(
                source,
                out,
                encoder=encoder,
                passage_tokens=passage_tokens,
                overlap_tokens=overlap_tokens,
                truncate=truncate,
                factory=factory,
                language=None if dense_only else language,
                facets=facet or (),
                precision=value_of(precision),
                threads=threads,
                overwrite=overwrite,
                skipped=skipped,
                progress=progress,
                finish=finish,
            )
    finally:
        if skipped is not None:
            print_skipped(skipped)
    if corpus:
        print_unread(corpus)
    details = manifest.details
    # Near ties count: of identical passages, an exact search may find other ones first.
    recall = details["recall"].get(FOUND, details["recall"]["recall@10"])
    ties = " (scores within 1% count)" if FOUND in details["recall"] else ""
    output.print(
        f"[bold]{out}[/]: {count(details['num_documents'], 'document')}, "
        f"{count(details['num_passages'], 'passage')}, {details['factory']}, recall@10 "
        f"{recall:.3f} against exact search{ties}",
        soft_wrap=True,
    )
