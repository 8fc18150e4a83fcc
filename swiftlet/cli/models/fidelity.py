"""`swiftlet fidelity`: how many dimensions a corpus needs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swiftlet.cli.fields import parameters, takes
from swiftlet.cli.terminal import ProgressBars, output
from swiftlet.evaluation.compression import Compression

if TYPE_CHECKING:
    from rich.table import Table

    from swiftlet.evaluation.fidelity import Fidelity


@takes(settings=parameters(Compression))
def fidelity(
    target: Annotated[
        Path,
        typer.Argument(
            help="Index directory, or a corpus as for `swiftlet index`.", metavar="TARGET"
        ),
    ],
    queries: Annotated[
        Path | None,
        typer.Option(
            help="A BEIR folder, a JSONL or TSV file, or irds:NAME.",
            show_default="spans of the texts",
        ),
    ] = None,
    *,
    settings: dict[str, Any],
) -> None:
    """Compress bags of words to k dimensions at random: how many keep the ranking?

    A learned encoder may need fewer, since it chooses what to keep.
    """
    from swiftlet.evaluation.fidelity import fidelity as measure

    with ProgressBars() as progress:
        found = measure(target, queries, progress=progress, **settings)
    output.print(_table(found))
    output.print(_conclusion(found), soft_wrap=True)


def _table(found: "Fidelity") -> "Table":
    from rich.table import Table

    names = {"bm25": "BM25", "boolean": "common words"}
    table = Table(
        title=f"{names[found.asked.model]}: {found.num_texts:,} texts, {found.num_words:,} words, "
        f"{found.num_queries:,} queries",
        title_justify="left",
    )
    titles = (
        "dimensions",
        "pairs in the wrong order",
        f"best text among the first {found.asked.rank}",
    )
    for title in titles:
        table.add_column(title, justify="right")
    for row in zip(found.dimensions, found.errors, found.recalls, strict=True):
        table.add_row(f"{row[0]:,}", f"{row[1]:.2%}", f"{row[2]:.1%}")
    return table


def _conclusion(found: "Fidelity") -> str:
    most = f"more than {found.dimensions[-1]:,}"
    pairs, best = (
        most if enough is None else f"{enough:,}"
        for enough in (found.enough_for_pairs, found.enough_for_recall)
    )
    kept = f"{1 - found.asked.error:.0%}"
    return (
        f"Random projections need {pairs} dimensions to keep {kept} of the pairs in order, and "
        f"{best} to keep the best text among the first {found.asked.rank} for {kept} of the "
        f"queries. For the median pair and query, lemmas 1 and 2 guarantee it from "
        f"{found.pair_bound:,} and {found.recall_bound:,} dimensions on."
    )
