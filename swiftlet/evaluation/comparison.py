"""Several runs side by side on several collections, as in Table 2 of paper 001."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from string import ascii_lowercase
from typing import Any

from pydantic import TypeAdapter

from swiftlet.errors import InvalidArgumentError, shown
from swiftlet.evaluation.significance import TESTS, Correction, TestName, corrected

RunValues = Mapping[str, Mapping[str, Mapping[str, float]]]
"""One run's values: collection -> metric -> query_id -> value."""


@dataclass(frozen=True, slots=True)
class PlainColumn:
    """Figures that are neither tested nor ranked, such as latency in ms.

    `figures` are by run; the table has a dash for a run without one.
    """

    title: str
    figures: Mapping[str, float]
    decimals: int = 1


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """One metric on one collection."""

    collection: str
    metric: str

    @property
    def fewer_is_better(self) -> bool:
        """Whether a lower value is the better one: of metrics, for Holes@k alone."""
        return self.metric.casefold().startswith("holes@")


@dataclass(frozen=True, slots=True)
class Cell:
    """A mean over queries, with the letters of the runs on which it improves significantly."""

    mean: float
    improves_on: str = ""


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One run: a cell for each metric column, None where the run has no values."""

    letter: str
    name: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A table of runs. `comparison_rendering` writes it as Markdown or LaTeX.

    `num_pairs` is the largest number of pairs of runs that were tested within one column.
    """

    columns: tuple[MetricColumn, ...]
    rows: tuple[ComparisonRow, ...]
    test: TestName
    significance_level: float
    correction: Correction
    num_pairs: int
    plain_columns: tuple[PlainColumn, ...] = ()


def comparison_from(raw: Mapping[str, Any]) -> Comparison:
    """The comparison from `raw`, its `asdict` as read from JSON."""
    return TypeAdapter(Comparison).validate_python(raw)


def mean_of(comparison: Comparison, name: str, metric: str) -> float:
    """A run's mean of one metric over all collections."""
    (row,) = (row for row in comparison.rows if row.name == name)
    cells = zip(comparison.columns, row.cells, strict=True)
    return fmean(cell.mean for column, cell in cells if cell and column.metric == metric)


def compare(
    runs: Mapping[str, RunValues],
    *,
    test: TestName = "t",
    significance_level: float = 0.01,
    correction: Correction = "none",
    plain_columns: Sequence[PlainColumn] = (),
) -> Comparison:
    """Compare runs with each other.

    Rows have the letters a, b, … in the order of `runs`; columns are in order of first occurrence.
    Each value lists the letters of the runs that it is significantly better than: with a two-sided
    p of at most `significance_level`, after `correction` over all pairs of runs in the column. The
    default is as in the paper (001, Table 2): p <= 0.01 by Student's paired t-test, uncorrected.

    :param runs: Name -> collection -> the result of `evaluate_per_query`.
    :raises InvalidArgumentError: When there are no runs or more than 26, the runs of a column do
        not have the same queries, `significance_level` is not between 0 and 1, or a plain column
        names an unknown run.
    """
    if not 1 <= len(runs) <= len(ascii_lowercase):
        raise InvalidArgumentError(
            f"{len(runs)} runs were given, but 1 to {len(ascii_lowercase)} can be compared: each "
            "has a letter"
        )
    if not 0.0 < significance_level < 1.0:
        raise InvalidArgumentError(
            f"significance_level is {significance_level:g}, but must lie between 0 and 1"
        )
    for plain in plain_columns:
        if unknown := sorted(plain.figures.keys() - runs.keys()):
            raise InvalidArgumentError(
                f"the column {shown(plain.title)} names {shown(unknown[0])}, which is not among "
                f"the runs {', '.join(map(shown, runs))}"
            )
    columns = tuple(
        dict.fromkeys(
            MetricColumn(collection, metric)
            for values in runs.values()
            for collection, metrics in values.items()
            for metric in metrics
        )
    )
    letters = dict(zip(runs, ascii_lowercase, strict=False))
    cells: list[dict[str, Cell]] = []
    num_pairs = 0
    for column in columns:
        values = {
            name: run[column.collection][column.metric]
            for name, run in runs.items()
            if column.metric in run.get(column.collection, {})
        }
        _check_queries(column, values)
        improves_on = _improvements(
            values, test, significance_level, correction, fewer_is_better=column.fewer_is_better
        )
        cells.append(
            {
                name: Cell(fmean(queries.values()), "".join(letters[o] for o in improves_on[name]))
                for name, queries in values.items()
            }
        )
        num_pairs = max(num_pairs, len(values) * (len(values) - 1) // 2)
    return Comparison(
        columns=columns,
        rows=tuple(
            ComparisonRow(letter, name, tuple(column.get(name) for column in cells))
            for name, letter in letters.items()
        ),
        test=test,
        significance_level=significance_level,
        correction=correction,
        num_pairs=num_pairs,
        plain_columns=tuple(plain_columns),
    )


def _check_queries(column: MetricColumn, values: Mapping[str, Mapping[str, float]]) -> None:
    first, *others = values
    if not values[first]:
        raise InvalidArgumentError(
            f"{shown(first)} has no queries for {column.metric} on {shown(column.collection)}"
        )
    for other in others:
        if values[other].keys() != values[first].keys():
            raise InvalidArgumentError(
                f"{shown(first)} and {shown(other)} cannot be compared by {column.metric} on "
                f"{shown(column.collection)}: they have {len(values[first])} and "
                f"{len(values[other])} queries, of which "
                f"{len(values[first].keys() & values[other].keys())} are the same"
            )


def _improvements(
    values: Mapping[str, Mapping[str, float]],
    test: TestName,
    significance_level: float,
    correction: Correction,
    *,
    fewer_is_better: bool,
) -> dict[str, list[str]]:
    """Run -> the runs on which it improves significantly, both in the order of `values`."""
    pairs = list(combinations(values, 2))
    tests = [TESTS[test](values[one], values[other]) for one, other in pairs]
    p_values = corrected([outcome.p_value for outcome in tests], correction)
    better = {
        (one, other) if (outcome.difference > 0) != fewer_is_better else (other, one)
        for (one, other), outcome, p_value in zip(pairs, tests, p_values, strict=True)
        if p_value <= significance_level and outcome.difference
    }
    return {one: [other for other in values if (one, other) in better] for one in values}
