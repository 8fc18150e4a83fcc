"""`swiftlet report`: what people search, by the query log of a service."""

from pathlib import Path
from typing import Annotated

import typer

from swiftlet.cli.options import IndexPlace, QueryEncoderOption
from swiftlet.cli.terminal import figures_table, output, print_note, print_plain, print_result


def report(
    index: IndexPlace,
    log: Annotated[Path, typer.Option(help="The folder of SWIFTLET_QUERY_LOG.", metavar="FOLDER")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="A folder for the tables (CSV) and a plot (SVG).",
            show_default="none",
            file_okay=False,
        ),
    ] = None,
    encoder: QueryEncoderOption = None,
) -> None:
    """Report what people search: frequent, slow and badly answered queries, and what changes."""
    from rich.text import Text

    from swiftlet.relevance.report import read_report
    from swiftlet.relevance.tables import sentences_of, tables_of, write_tables
    from swiftlet.search.opening import open_searcher

    with open_searcher(index, encoder=encoder) as searcher:
        found = read_report(log, searcher)
        if not searcher.has_encoder:
            print_note("the index has no query encoder, so only answers without documents are weak")
    for sentence in sentences_of(found):
        print_plain(f"{sentence}.")
    for table in tables_of(found):
        printed = figures_table(table.title, *table.columns)
        for row in table.rows:
            printed.add_row(*map(Text, row))
        output.print(printed)
    if out is not None:
        write_tables(found, out)
        print_result(out, f"{len(tables_of(found))} tables and a plot")
