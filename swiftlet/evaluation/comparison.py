"""A table of several runs, as papers print it: a value bears the letters of runs it improves on."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from string import ascii_lowercase

from rich.markup import escape
from rich.table import Table

from swiftlet.errors import InvalidArgumentError
from swiftlet.evaluation.metrics import Metric, evaluate_per_query
from swiftlet.evaluation.significance import TESTS, TestName
from swiftlet.types import Qrels, Run

LEVEL = 0.01
"""The p-value up to which a value is an improvement (001, table 1)."""

Values = Mapping[str, Mapping[str, float]]
"""Metric -> query_id -> value."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The mean of a metric over the queries, and the letters of the runs on which it improves."""

    mean: float
    improves_on: str


@dataclass(frozen=True, slots=True)
class Row:
    """A run, with its letter and a cell for each metric."""

    letter: str
    name: str
    cells: list[Cell]


def lettered(runs: Mapping[str, Values], test: TestName = "t") -> list[Row]:
    """The rows of runs, name -> metric -> query_id -> value, of the same metrics and queries.

    The tests are two-sided and paired, p <= `LEVEL`, and not corrected for several comparisons.

    :raises InvalidArgumentError: When there are more than 26 runs, or their queries differ.
    """
    if len(runs) > len(ascii_lowercase):
        raise InvalidArgumentError(
            f"{len(runs)} runs need more letters than there are: compare at most 26"
        )
    letters = dict(zip(runs, ascii_lowercase, strict=False))

    def improves(metric: str, run: str, other: str) -> bool:
        found = TESTS[test](runs[run][metric], runs[other][metric])
        gain = -found.difference if metric.startswith("Holes") else found.difference
        return gain > 0 and found.p_value <= LEVEL

    def cell(metric: str, run: str) -> Cell:
        over = (letter for other, letter in letters.items() if improves(metric, run, other))
        return Cell(fmean(runs[run][metric].values()), "".join(over))

    return [
        Row(letter, run, [cell(metric, run) for metric in runs[run]])
        for run, letter in letters.items()
    ]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several runs by the same qrels."""

    metrics: list[str]
    num_queries: int
    rows: list[Row]

    def table(self) -> Table:
        """The runs for a terminal."""
        title = f"{self.num_queries:,} judged queries; letters: better at p ≤ {LEVEL}"
        table = Table("", "run", title=title, title_justify="left")
        for metric in self.metrics:
            table.add_column(metric)
        for row in self.rows:
            cells = (f"{cell.mean:.4f} {cell.improves_on}".rstrip() for cell in row.cells)
            table.add_row(escape(f"[{row.letter}]"), escape(row.name), *cells)
        return table

    def latex(self) -> str:
        """The runs as a LaTeX table with superscripts, for the package booktabs."""
        lines = [rf"\begin{{tabular}}{{ll{'l' * len(self.metrics)}}}", r"\toprule"]
        lines += [rf"& run & {' & '.join(self.metrics)} \\", r"\midrule"]
        for row in self.rows:
            marks = (f"$^{{{cell.improves_on}}}$" if cell.improves_on else "" for cell in row.cells)
            means = (f"{cell.mean:.3f}".removeprefix("0") for cell in row.cells)
            cells = map("".join, zip(means, marks, strict=True))
            name = re.sub(r"([_&%#$])", r"\\\1", row.name)
            lines.append(rf"{{[{row.letter}]}} & {name} & {' & '.join(cells)} \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def compare_runs(
    runs: Mapping[str, Run],
    qrels: Qrels,
    metrics: Sequence[str],
    *,
    relevant_from: int = 1,
    test: TestName = "t",
) -> Comparison:
    """Evaluate runs, by name, and test each of them against each other.

    :raises InvalidArgumentError: As `evaluate_per_query` and `lettered`.
    :raises EvaluationError: As `evaluate_per_query`, of any run.
    """
    values = {
        name: evaluate_per_query(run, qrels, metrics, relevant_from=relevant_from)
        for name, run in runs.items()
    }
    num_queries = sum(bool(grades) for grades in qrels.values())
    titles = [str(Metric.parse(metric)) for metric in metrics]
    return Comparison(titles, num_queries, lettered(values, test))
