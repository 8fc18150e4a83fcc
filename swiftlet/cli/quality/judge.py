"""`swiftlet judge`: what is to be judged, by people or a language model, and how far they agree."""

from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from swiftlet.address import ADDRESSES
from swiftlet.cli.options import complete_encoder
from swiftlet.cli.terminal import (
    ProgressBars,
    count,
    figures_table,
    output,
    print_note,
    print_result,
)

if TYPE_CHECKING:
    from swiftlet.relevance.sampling import By

_QUERIES, _DEPTH = 50, 5


def judge(
    folder: Annotated[Path, typer.Argument(help="The folder of the judgements.", metavar="FOLDER")],
    index: Annotated[
        str | None,
        typer.Option(
            help="Search this index for documents to judge, and leave out what it lacks: a "
            f"directory, {ADDRESSES}.",
            show_default="none",
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            help="Draw queries from this folder of SWIFTLET_QUERY_LOG.",
            metavar="FOLDER",
            show_default="titles and headings of documents are the queries",
        ),
    ] = None,
    queries: Annotated[
        int | None,
        typer.Option(min=1, max=500, help="Queries to judge.", show_default=f"{_QUERIES}"),
    ] = None,
    by: Annotated[
        Literal["stratified", "frequency", "doubt"] | None,
        typer.Option(
            help="How queries are drawn from the log: equally many frequent, usual and rare ones; "
            "by frequency; or by how often they had no good answer.",
            show_default="stratified",
        ),
    ] = None,
    depth: Annotated[
        int, typer.Option(min=1, max=20, help="Best documents of each mode and encoder.")
    ] = _DEPTH,
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            help="Search by this query encoder, too; may be repeated.",
            autocompletion=complete_encoder,
            show_default="the index's own alone",
        ),
    ] = None,
    llm: Annotated[
        str | None,
        typer.Option(
            help="Let a language model judge first: http(s)://HOST[:PORT]/v1?model=NAME.",
            metavar="ADDRESS",
            show_default="none",
        ),
    ] = None,
) -> None:
    """Choose what is judged, write the qrels of what was judged, and say how far judges agree."""
    from swiftlet.relevance.language_model import ChatAddress, pre_judge
    from swiftlet.relevance.pool import has_pool

    address = None if llm is None else ChatAddress.parse(llm, key=ChatAddress.key_of_environment())
    if has_pool(folder) and (log or queries or by):
        raise typer.BadParameter(
            f"the queries of {folder} are chosen: choose a new folder for other ones",
            param_hint="--log, --queries or --by",
        )
    if by and not log:
        raise typer.BadParameter("it is about a log: name one by --log", param_hint="--by")
    if index is not None:
        _search(folder, index, log, queries or _QUERIES, by or "stratified", depth, encoder or [])
    elif log or queries or encoder:
        raise typer.BadParameter(
            "they are about an index: name one by --index",
            param_hint="--log, --queries or --encoder",
        )
    if address is not None:
        with ProgressBars() as progress:
            num_without = pre_judge(folder, address, progress)
        if num_without:
            print_note(f"{num_without:,} answers had no grade: their documents are not judged")
    _report(folder, refuses=index is None and address is None)


def _search(
    folder: Path,
    index: str,
    log: Path | None,
    queries: int,
    by: "By",
    depth: int,
    encoders: list[str],
) -> None:
    """Write what an index finds for the queries of the pool, or for new ones."""
    from swiftlet.relevance.pool import has_pool, holds, new_pool, pooled, read_pool, write_pool
    from swiftlet.relevance.sampling import queries_of_corpus, queries_of_log
    from swiftlet.search.opening import open_searcher

    with ExitStack() as stack:
        searchers = [
            stack.enter_context(open_searcher(index, encoder=each)) for each in (None, *encoders)
        ]
        if has_pool(folder):
            earlier = read_pool(folder)
            pool = earlier.held(partial(holds, searchers[0]))
            if gone := len(earlier) - len(pool):
                print_note(f"{gone:,} documents are left out, because the index lacks them now")
        elif log is not None:
            pool = new_pool(queries_of_log(log, searchers[0], queries, by))
        else:
            pool = new_pool(queries_of_corpus(searchers[0], queries))
        progress = stack.enter_context(ProgressBars())
        write_pool(folder, pooled(pool, searchers, depth, progress))


def _report(folder: Path, *, refuses: bool) -> None:
    """Write the qrels, and print how far judges agree.

    :raises CollectionError: With `refuses`, when the judgements are no evidence.
    """
    from rich.text import Text

    from swiftlet.errors import CollectionError
    from swiftlet.relevance.agreement import sum_up
    from swiftlet.relevance.judgements import GRADES
    from swiftlet.relevance.pool import read_pool

    pool = read_pool(folder)
    verdict = sum_up(folder, pool)
    print_result(
        folder,
        f"{len(pool.queries):,} queries, {count(len(pool), 'document')} to judge, "
        f"{count(len(verdict.grades), 'judgement')} in qrels/test.tsv",
    )
    table = figures_table("Judges", "judge", "judged", *GRADES, "changed later")
    for name, grades in verdict.judgements.grades.items():
        given = Counter(grades.values())
        figures = [len(grades), *(given[each] for each in range(len(GRADES)))]
        figures.append(verdict.judgements.changed[name])
        table.add_row(Text(name), *(f"{each:,}" for each in figures))
    if table.rows:
        output.print(table)
    table = figures_table("Agreement", "judges", "in common", "κ")
    for each in verdict.agreements:
        value = f"{each.kappa:.2f}" if each.is_known else f"{each.missing:,} more to judge"
        table.add_row(Text(f"{each.first}, {each.second}"), f"{each.in_common:,}", value)
    if table.rows:
        output.print(table)
    for sentence in verdict.notes:
        print_note(sentence)
    if verdict.objections and refuses:
        raise CollectionError(folder, f"no evidence: {'; '.join(verdict.objections)}")
    for sentence in verdict.objections:
        print_note(f"no evidence yet: {sentence}")
