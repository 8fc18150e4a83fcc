"""`swiftlet evaluate`: metrics of an index or a service."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from swiftlet.address import ADDRESSES
from swiftlet.cli.fields import MEASURED, takes
from swiftlet.cli.options import (
    AllowUnknown,
    MetricOption,
    PrecisionOption,
    QueryEncoderOption,
    RelevantFrom,
    RerankerOption,
)
from swiftlet.cli.terminal import ProgressBars, output


@takes(fields=MEASURED)
def evaluate(
    target: Annotated[
        str,
        typer.Argument(
            help=f"Index directory, {ADDRESSES}, or the URL of a running service.", metavar="TARGET"
        ),
    ],
    queries: Annotated[
        Path, typer.Option(help="A BEIR folder, a JSONL or TSV file, or irds:NAME.")
    ],
    qrels: Annotated[Path, typer.Option(help="BEIR or TREC qrels, or irds:NAME.")],
    encoder: QueryEncoderOption = None,
    precision: PrecisionOption = None,
    reranker: RerankerOption = None,
    metric: MetricOption = None,
    relevant_from: RelevantFrom = 1,
    top_k: Annotated[
        int | None,
        typer.Option(
            "--top-k",
            "-k",
            min=1,
            help="Documents per query.",
            show_default="enough for the metrics",
        ),
    ] = None,
    run_out: Annotated[Path | None, typer.Option(help="TREC run file to write.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="TREC run to test the differences against.")
    ] = None,
    test: Annotated[
        Literal["t", "wilcoxon"] | None,
        typer.Option(help="How differences are tested for significance.", show_default="t"),
    ] = None,
    length_bin: Annotated[
        list[int] | None,
        typer.Option(
            min=1,
            help="Divide the queries by the length of their relevant documents: the most tokens "
            "of a bin. May be repeated.",
        ),
    ] = None,
    allow_unknown: AllowUnknown = False,
    *,
    fields: dict[str, Any],
) -> None:
    """Measure an index or a service by queries and qrels."""
    from swiftlet.evaluation.evaluate import evaluate as measure
    from swiftlet.evaluation.metrics import DEFAULT_METRICS

    if test is not None and against is None:
        raise typer.BadParameter(
            "it compares with a run: name one by --against", param_hint="--test"
        )
    with ProgressBars() as progress:
        report = measure(
            target,
            queries,
            qrels,
            encoder=encoder,
            precision=precision,
            reranker=reranker,
            metrics=metric or DEFAULT_METRICS,
            relevant_from=relevant_from,
            top_k=top_k,
            run_out=run_out,
            against=against,
            test=test or "t",
            length_bins=length_bin or (),
            allow_unknown=allow_unknown,
            progress=progress,
            **fields,
        )
    output.print(report.table())
