"""`swiftlet table`: several runs beside each other, as papers print them."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

import typer

from swiftlet.cli.options import MetricOption, RelevantFrom
from swiftlet.cli.terminal import output


def table(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="TREC runs, as `swiftlet evaluate --run-out` writes them.", metavar="RUN"
        ),
    ],
    qrels: Annotated[Path, typer.Option(help="BEIR or TREC qrels, or irds:NAME.")],
    metric: MetricOption = None,
    relevant_from: RelevantFrom = 1,
    test: Annotated[
        Literal["t", "wilcoxon"], typer.Option(help="How differences are tested for significance.")
    ] = "t",
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX.")] = False,
) -> None:
    """Compare runs: a value bears the letters of the runs that it is significantly better than."""
    from swiftlet.corpora.trec import read_qrels, read_run
    from swiftlet.evaluation.comparison import compare_runs
    from swiftlet.evaluation.metrics import DEFAULT_METRICS

    count = Counter(path.stem for path in runs)
    found = compare_runs(
        {path.stem if count[path.stem] == 1 else str(path): read_run(path) for path in runs},
        read_qrels(qrels),
        metric or DEFAULT_METRICS,
        relevant_from=relevant_from,
        test=test,
    )
    if latex:
        output.print(found.latex(), markup=False, soft_wrap=True)
    else:
        output.print(found.table())
