"""`swiftlet evaluate`: an index or a service measured by queries and qrels."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.progress import Progress

import models
from evaluation.experiment import match_judgements, run_queries
from evaluation.metrics import DEFAULT_METRICS, Metric, largest_cutoff, load_ranx
from evaluation.report import Report, make_report
from evaluation.retrievers import Retriever, SearcherRetriever, ServiceRetriever
from retrieval.collections import read_queries
from retrieval.encoder import Precision
from retrieval.errors import InvalidArgumentError
from retrieval.searcher import Searcher
from retrieval.trec import read_qrels, read_run, write_run
from swiftlet.terminal import messages, print_note

_FEWEST_DOCUMENTS = 100


def evaluate_target(
    target: str,
    *,
    queries: Path,
    qrels: Path,
    encoder: Path | None,
    precision: Precision | None,
    metrics: Sequence[str],
    top_k: int | None,
    run_out: Path | None,
    against: Path | None,
    allow_unknown: bool,
) -> Report:
    """Run the judged queries against `target`, an index directory or a URL, and evaluate."""
    load_ranx()  # before any searching
    metrics = metrics or DEFAULT_METRICS
    if top_k is None:
        top_k = max(_FEWEST_DOCUMENTS, largest_cutoff(metrics))
    if largest_cutoff(metrics) > top_k:
        deepest = max(map(Metric.parse, metrics), key=lambda metric: metric.cutoff or 0)
        raise InvalidArgumentError(
            f"{deepest} needs {deepest.cutoff} documents a query, but top_k is {top_k}"
        )
    if run_out is not None and not run_out.absolute().parent.is_dir():
        raise InvalidArgumentError(f"{run_out.parent} is not a directory to write the run to")
    if run_out is not None and run_out.is_dir():
        raise InvalidArgumentError(
            f"{run_out} is a directory; a file to write the run to is needed"
        )
    baseline = None if against is None else read_run(against)
    every_query, judged = read_queries(queries), read_qrels(qrels)
    with ExitStack() as stack:
        retriever = stack.enter_context(_open(target, encoder, precision))
        bars = stack.enter_context(Progress(console=messages, transient=True))
        checking = bars.add_task("Looking up judged documents", total=None)
        judgements = match_judgements(
            every_query,
            judged,
            retriever,
            qrels_path=qrels,
            allow_unknown=allow_unknown,
            progress=lambda done, total: bars.update(checking, completed=done, total=total),
        )
        if judgements.warning:
            print_note(judgements.warning)
        searching = bars.add_task("Searching", total=None)
        run = run_queries(
            retriever,
            judgements.queries,
            top_k=top_k,
            progress=lambda done, total: bars.update(searching, completed=done, total=total),
        )
    if run_out is not None:
        write_run(run_out, run, "swiftlet")
    with messages.status("Computing metrics (longer the first time, when ranx is compiled)"):
        return make_report(
            run,
            judgements.qrels,
            metrics=metrics,
            baseline=baseline,
            name=target,
            baseline_name="" if against is None else str(against),
        )


@contextmanager
def _open(target: str, encoder: Path | None, precision: Precision | None) -> Iterator[Retriever]:
    if target.startswith(("http://", "https://")):
        if encoder is not None or precision is not None:
            raise InvalidArgumentError(
                f"{target} has an encoder of its own: --encoder and --precision are for an index"
            )
        with ServiceRetriever.connect(target) as retriever:
            yield retriever
        return
    searcher = Searcher.open(
        Path(target), encoder or models.DEFAULT_QUERY_ENCODER, precision=precision
    )
    try:
        yield SearcherRetriever(searcher)
    finally:
        searcher.close()
