"""The result of an evaluation, as data and as a table for the terminal."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean

from rich.markup import escape
from rich.table import Table

from swiftlet.errors import UnknownDocumentError
from swiftlet.evaluation.metrics import DEFAULT_METRICS, Lengths, Metric, evaluate_per_query
from swiftlet.evaluation.significance import TESTS, PairedTest, TestName
from swiftlet.types import Qrels, Run

_SMALLEST_SHOWN = 0.001


@dataclass(frozen=True, slots=True)
class LengthBin:
    """The queries whose relevant documents have, on average, a number of tokens in a range.

    It is above `least_tokens` and at most `most_tokens`; None is no bound.
    """

    least_tokens: int | None
    most_tokens: int | None
    num_queries: int
    means: dict[str, float]
    comparisons: dict[str, PairedTest]


@dataclass(frozen=True, slots=True)
class Report:
    """Means over the judged queries, compared with the means of a baseline if there is one.

    `num_unanswered` of the judged queries have no results in the run, and count 0. `bins` divide
    the queries by the lengths of their relevant documents (002, figure 1).
    """

    name: str
    num_queries: int
    num_unanswered: int
    means: dict[str, float]
    baseline_name: str | None
    baseline_num_unanswered: int
    comparisons: dict[str, PairedTest]
    bins: tuple[LengthBin, ...] = ()

    def table(self) -> Table:
        """The report for a terminal."""
        queries = "query" if self.num_queries == 1 else "queries"
        table = Table(title=f"{self.num_queries:,} judged {queries}", title_justify="left")
        table.add_column("metric")
        table.add_column(escape(self.name), justify="right", overflow="fold")
        if self.baseline_name is not None:
            table.add_column(escape(self.baseline_name), justify="right", overflow="fold")
            table.add_column("difference", justify="right")
            table.add_column("p", justify="right")
        for row in _rows(self.means, self.comparisons):
            table.add_row(*row)
        if self.bins:
            table.add_section()
        for each in self.bins:
            most, least = each.most_tokens, each.least_tokens
            lengths = f"above {least}" if most is None else f"{(least or 0) + 1} to {most}"
            queries = "1 query" if each.num_queries == 1 else f"{each.num_queries:,} queries"
            table.add_row(f"{lengths} tokens: {queries}")
            for name, *cells in _rows(each.means, each.comparisons):
                table.add_row(f"  {name}", *cells)
        unanswered = {self.name: self.num_unanswered}
        if self.baseline_name is not None:
            unanswered[self.baseline_name] = self.baseline_num_unanswered
        table.caption = "\n".join(
            f"{escape(name)}: no results for {count:,} of the queries, which count 0"
            for name, count in unanswered.items()
            if count
        )
        return table


def make_report(
    run: Run,
    qrels: Qrels,
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    relevant_from: int = 1,
    baseline: Run | None = None,
    name: str = "run",
    baseline_name: str = "baseline",
    test: TestName = "t",
    num_tokens: Lengths | None = None,
    length_bins: Sequence[int] = (),
) -> Report:
    """Evaluate `run` and test it against `baseline`, if there is one, query by query.

    :param relevant_from: The lowest grade of a relevant document, as `evaluate_per_query` takes it.
    :param num_tokens: The length of each document, for `length_bins` and cutoffs in tokens.
    :param length_bins: The most tokens of each bin, ascending; one for longer documents follows.
    :raises InvalidArgumentError: As `evaluate_per_query`.
    :raises EvaluationError: As `evaluate_per_query`, of either run.
    """
    measured = partial(_titled, qrels, metrics, num_tokens, relevant_from)
    per_query, other = measured(run), {} if baseline is None else measured(baseline)
    judged = [query_id for query_id, grades in qrels.items() if grades]

    def outcome(chosen: list[str]) -> tuple[dict[str, float], dict[str, PairedTest]]:
        """The means over some queries, and the comparisons with the baseline."""
        found, old = (
            {metric: {each: values[each] for each in chosen} for metric, values in of_run.items()}
            for of_run in (per_query, other)
        )
        means = {metric: fmean(values.values()) for metric, values in found.items()}
        return means, {metric: TESTS[test](found[metric], old[metric]) for metric in old}

    bins = _bins(qrels, num_tokens, length_bins) if length_bins and num_tokens else ()
    means, comparisons = outcome(judged)
    return Report(
        name=name,
        num_queries=len(judged),
        num_unanswered=sum(not run.get(query_id) for query_id in judged),
        means=means,
        baseline_name=None if baseline is None else baseline_name,
        baseline_num_unanswered=(
            0 if baseline is None else sum(not baseline.get(query_id) for query_id in judged)
        ),
        comparisons=comparisons,
        bins=tuple(
            LengthBin(least, most, len(chosen), *outcome(chosen)) for least, most, chosen in bins
        ),
    )


def _rows(means: dict[str, float], comparisons: dict[str, PairedTest]) -> Iterator[list[str]]:
    for metric, mean in means.items():
        row = [metric, f"{mean:.4f}"]
        if metric in comparisons:
            test = comparisons[metric]
            row += [f"{test.baseline_mean:.4f}", f"{test.difference:+z.4f}", _p(test.p_value)]
        yield row


def _bins(
    qrels: Qrels, num_tokens: Lengths, most: Sequence[int]
) -> Iterator[tuple[int | None, int | None, list[str]]]:
    """The bounds of each bin that has queries, and their ids."""

    def length(document_id: str) -> int | None:
        try:
            return num_tokens(document_id)
        except UnknownDocumentError:  # which the caller has allowed
            return None

    lengths = {}
    for query_id, grades in qrels.items():
        relevant = (document_id for document_id, grade in grades.items() if grade > 0)
        if known := [each for each in map(length, relevant) if each is not None]:
            lengths[query_id] = fmean(known)
    for least, bound in pairwise((None, *most, None)):
        chosen = [
            query_id
            for query_id, length in lengths.items()
            if (least or 0) < length <= (bound or math.inf)
        ]
        if chosen:
            yield least, bound, chosen


def _titled(
    qrels: Qrels, metrics: Sequence[str], num_tokens: Lengths | None, relevant_from: int, run: Run
) -> dict[str, dict[str, float]]:
    """Metric, as tables show it -> query_id -> value."""
    per_query = evaluate_per_query(run, qrels, metrics, num_tokens, relevant_from)
    return {str(Metric.parse(spelling)): values for spelling, values in per_query.items()}


def _p(value: float) -> str:
    return f"< {_SMALLEST_SHOWN}" if value < _SMALLEST_SHOWN else f"{value:.3f}"
