"""`swiftlet improve`: what judgements make better."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from swiftlet.cli.options import AllowUnknown, IndexDirectory, Settings, complete_encoder
from swiftlet.cli.terminal import (
    ProgressBars,
    figures_table,
    output,
    print_note,
    print_plain,
    print_result,
)


def improve(
    index: IndexDirectory,
    judgements: Annotated[
        Path,
        typer.Option(
            help="A folder of swiftlet judge, or with queries.jsonl and qrels/test.tsv.",
            metavar="FOLDER",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the adapted encoders and of a report.")],
    log: Annotated[
        Path | None,
        typer.Option(
            help="Learn from the queries of this folder of SWIFTLET_QUERY_LOG, too.",
            metavar="FOLDER",
            show_default="none",
        ),
    ] = None,
    encoder: Annotated[
        Path | None,
        typer.Option(
            help="The query encoder of searches today.",
            show_default="the index's own, or the one that ships",
            autocompletion=complete_encoder,
        ),
    ] = None,
    student: Annotated[
        list[Path] | None,
        typer.Option(
            help="A query encoder to adapt; may be repeated.",
            show_default="the one of today, and those that ship for the index",
            autocompletion=complete_encoder,
        ),
    ] = None,
    settings: Settings = None,
    allow_unknown: AllowUnknown = False,
) -> None:
    """Try another weight and adapted encoders, and say whether one of them finds more.

    The index stays as it is. After an interruption, run the same command to resume it.
    """
    from swiftlet.extras import extra
    from swiftlet.manifest import read_manifest

    read_manifest(index, "index")
    with extra("export"):
        from export.encoder_directory import export_encoder
        from training.adaptation.improve import improve as find
        from training.adaptation.improvement import COLUMNS, REPORT
    with ProgressBars() as progress:
        found = find(
            index,
            judgements,
            out,
            export_encoder,
            log=log,
            encoder=encoder,
            students=student or [],
            settings=settings or [],
            allow_unknown=allow_unknown,
            progress=progress,
        )
    num_held_out = found.candidates[0].test.num_queries
    title = f"{found.mode} search, {num_held_out:,} held-out queries"
    table = figures_table(title, "search", *COLUMNS)
    table.columns[0].overflow = "fold"
    for name, *figures in found.table():
        table.add_row(Text(name), *figures)
    output.print(table)
    print_result(out / REPORT, found.verdict)
    for aim, command in found.commands:
        print_plain(f"To {aim}: {command}")
    for sentence in found.advice():
        print_note(sentence)
