"""`swiftlet compare`: two query encoders of one index."""

from pathlib import Path
from typing import Annotated

import typer

from swiftlet.address import ADDRESSES
from swiftlet.cli.options import AllowUnknown, complete_encoder
from swiftlet.cli.terminal import ProgressBars, figures_table, output, print_note

_FEWEST_QUERIES = 10


def compare(
    index: Annotated[
        str,
        typer.Argument(
            help=f"Index directory, {ADDRESSES}, or a file of vectors.", metavar="INDEX"
        ),
    ],
    first: Annotated[
        str,
        typer.Argument(
            help="A query encoder, as --encoder names one, or a .npy file with the queries' "
            "embeddings.",
            metavar="FIRST",
            autocompletion=complete_encoder,
        ),
    ],
    second: Annotated[
        str,
        typer.Argument(
            help="The encoder to compare with it.",
            metavar="SECOND",
            autocompletion=complete_encoder,
        ),
    ],
    queries: Annotated[
        Path, typer.Option(help="A BEIR folder, a JSONL or TSV file, or irds:NAME.")
    ],
    qrels: Annotated[
        Path | None,
        typer.Option(
            help="BEIR or TREC qrels, to compare nDCG@10 by; the documents of a file without ids "
            "are its rows, from 0."
        ),
    ] = None,
    top_k: Annotated[
        int, typer.Option("--top-k", "-k", min=1, help="Documents of the overlap.")
    ] = 10,
    allow_unknown: AllowUnknown = False,
) -> None:
    """Compare two query encoders of an index: what they find, how well, and in what time."""
    from swiftlet.evaluation.encoders import NDCG, compare_encoders

    with ProgressBars() as progress:
        found = compare_encoders(
            index,
            first,
            second,
            queries,
            qrels,
            top_k=top_k,
            allow_unknown=allow_unknown,
            progress=progress,
        )
    table = figures_table(
        f"{found.num_queries:,} queries", "figure", "first", "second", "difference", "p"
    )
    one, two = found.milliseconds
    times = ["from a file" if each is None else f"{each:.2f}" for each in (one, two)]
    times.append("" if one is None or two is None else f"{two - one:+.2f}")
    if one is not None or two is not None:
        table.add_row("milliseconds to encode a query, median", *times, "")
    for mode, test in found.ndcg.items():
        means = (f"{test.baseline_mean:.4f}", f"{test.mean:.4f}", f"{test.difference:+.4f}")
        p_value = f"{test.p_value:.1g}" if found.num_queries >= _FEWEST_QUERIES else ""
        table.add_row(f"{NDCG}, {mode}", *means, p_value)
    output.print(f"first: {first}; second: {second}", soft_wrap=True, highlight=False, markup=False)
    if table.row_count:
        output.print(table)
    correlation = "" if found.correlation is None else f"{found.correlation:.3f}"
    output.print(
        f"overlap@{found.top_k} of their documents: {found.overlap:.3f}; correlation of their "
        f"scores: {correlation or 'they find too few documents in common'}",
        soft_wrap=True,
    )
    if found.ndcg and found.num_queries < _FEWEST_QUERIES:
        print_note(f"for a p, at least {_FEWEST_QUERIES} queries are needed")
