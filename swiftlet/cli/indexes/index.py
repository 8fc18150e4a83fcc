"""`swiftlet index`: a corpus to an index directory."""

from pathlib import Path
from typing import Annotated, Any

import typer

from swiftlet import encoders
from swiftlet.cli.fields import BUILT, COLUMNS, OF_CORPUS, documents_with, flag_of, takes
from swiftlet.cli.options import FromShards, Overwrite, complete_encoder, encoder_option
from swiftlet.cli.terminal import ProgressBars, print_built, print_note


@takes(settings=BUILT, fields=COLUMNS)
def index(
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
        str | None,
        encoder_option(
            "the one that ships, or that encoded the shards",
            "Directory that `swiftlet export` wrote, a name, MODULE:FUNCTION, the address of an "
            "OpenAI-compatible API, or auto: the multilingual one where the documents need it.",
        ),
    ] = None,
    dense_only: Annotated[
        bool, typer.Option("--dense-only", help="No lexical index: search by meaning alone.")
    ] = False,
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
    overwrite: Overwrite = False,
    *,
    settings: dict[str, Any],
    fields: dict[str, Any],
) -> None:
    """Build an index from a corpus. After an interruption, run the same command to resume it."""
    from swiftlet.corpora.collections import unread_files
    from swiftlet.encoders.opening import directory_of, encoder_place
    from swiftlet.extras import extra
    from swiftlet.index.building.build import build
    from swiftlet.index.building.shards import Shards
    from swiftlet.index.document_encoder import document_encoder_of
    from swiftlet.publication import check_target

    if (student is not None or queries) and not adapt_queries:
        raise typer.BadParameter("--student and --queries are for --adapt-queries: pass it, too")
    if bool(corpus) is bool(from_shards):
        raise typer.BadParameter("name either a corpus or --from-shards")
    if dense_only:
        if "language" in settings:
            raise typer.BadParameter("--language is for words, and --dense-only leaves them out")
        settings["language"] = None
    of_corpus = [each for each in OF_CORPUS if each.name in settings or each.name in fields]
    if from_shards and of_corpus:
        raise typer.BadParameter(
            f"{flag_of(of_corpus[0])} is for a corpus, but shards are encoded already"
        )
    unread = unread_files(corpus or ())
    if adapt_queries:
        check_target(out, overwrite=overwrite, kind="index")
        with extra("export"):
            from export.encoder_directory import export_encoder
            from training.adaptation.adaptation import Adaptation
    with (
        documents_with(corpus or (), fields) as (documents, skipped),
        ProgressBars() as progress,
    ):
        finish = None
        source = documents if corpus else Shards(from_shards or ())
        if adapt_queries:
            teacher = encoder_place(encoder)
            if teacher is None and isinstance(source, Shards):
                teacher = document_encoder_of(source.details)
            finish = Adaptation(
                encoders.find(student or encoders.LOOKUP_QUERY_ENCODER),
                directory_of(teacher or encoders.DEFAULT_ENCODER),
                export_encoder,
                queries=queries or (),
                progress=progress,
            )
        manifest = build(
            source,
            out,
            encoder=encoder,
            overwrite=overwrite,
            skipped=skipped,
            progress=progress,
            finish=finish,
            **settings,
        )
    if unread:
        print_note(unread)
    print_built(out, manifest.details)
