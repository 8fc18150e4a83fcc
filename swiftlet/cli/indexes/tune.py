"""`swiftlet tune`: the weight of a hybrid search, by judged queries."""

from pathlib import Path
from typing import Annotated

import typer

from swiftlet.cli.options import (
    AllowUnknown,
    IndexDirectory,
    PrecisionOption,
    QueryEncoderOption,
)
from swiftlet.cli.terminal import ProgressBars, print_plain, print_result


def tune(
    index: IndexDirectory,
    queries: Annotated[
        Path | None, typer.Option(help="A BEIR folder, a JSONL or TSV file, or irds:NAME.")
    ] = None,
    qrels: Annotated[Path | None, typer.Option(help="BEIR or TREC qrels, or irds:NAME.")] = None,
    encoder: QueryEncoderOption = None,
    precision: PrecisionOption = None,
    allow_unknown: AllowUnknown = False,
    weight: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Write this weight.", show_default="the best one"),
    ] = None,
    reset: Annotated[
        bool, typer.Option("--reset", help="Write the weight that ships in place of a tuned one.")
    ] = False,
) -> None:
    """Find the weight of the dense score in hybrid searches, and write it into the index."""
    from swiftlet.evaluation.weight import reset_weight, set_weight
    from swiftlet.evaluation.weight import tune as find

    given = [queries is not None and qrels is not None, weight is not None, reset]
    if sum(given) != 1 or (queries is None) != (qrels is None):
        raise typer.BadParameter("give both --queries and --qrels, or --weight or --reset alone")
    if queries is None or qrels is None:
        written = reset_weight(index) if weight is None else set_weight(index, weight)
        as_shipped = ", as shipped" if reset else ""
        print_result(index, f"the weight is now {written:g}{as_shipped}")
        return
    with ProgressBars() as progress:
        tuned = find(
            index,
            queries,
            qrels,
            encoder=encoder,
            precision=precision,
            allow_unknown=allow_unknown,
            progress=progress,
        )
    print_plain(
        f"nDCG@10 of {tuned.num_queries:,} queries: dense {tuned.dense:.4f}, lexical "
        f"{tuned.lexical:.4f}, hybrid {tuned.before:.4f}, tuned {tuned.cross_validated:.4f} "
        "(on queries that were not used for tuning)"
    )
    if tuned.is_better:
        print_result(index, f"the weight is now {tuned.weight:g}")
    else:
        print_result(index, "the weight stays as it was, since no other one is better")
