"""A report as sentences, tables and a plot: for the terminal, for files and for a page."""

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from swiftlet import disk
from swiftlet.relevance.report import SHOWN, Period, QueryFigures, Report

_WIDTH, _HEIGHT, _HEAD, _FOOT = 640, 160, 18, 20
_INK, _MUTED, _WEAK, _GOOD = "#333333", "#666666", "#D55E00", "#0072B2"


class ReportTable(NamedTuple):
    """One table; the first column has names."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def sentences_of(report: Report) -> list[str]:
    """What stands before the tables."""
    counts = {
        "Searches": report.searches,
        "queries": len(report.queries),
        "opened documents": report.clicks,
    }
    found = ["; ".join(f"{name}: {count:,}" for name, count in counts.items()), report.drift]
    if report.typed:
        found.append(f"{report.typed:,} searches made while a query was typed are not counted")
    if report.foreign_clicks:
        found.append(
            f"{report.foreign_clicks:,} clicks are not counted: their search is not in the log, or "
            "has not shown that document"
        )
    if report.damaged:
        found.append(f"{report.damaged:,} lines are damaged and not counted")
    return found + [duel.verdict for duel in report.duels]


def tables_of(report: Report) -> list[ReportTable]:
    """All tables that have a row."""
    of_query = ("query", "searches", "weak", "asked anew", "opened", "median ms")
    lists = {
        "frequent": ("The most frequent queries", report.frequent),
        "weak": ("Queries without a good answer", report.weak),
        "slow": ("The slowest queries", report.slow),
    }
    found = [
        ReportTable(name, title, of_query, [_row(each) for each in queries])
        for name, (title, queries) in lists.items()
    ]
    anew = [(*pair, f"{count:,}") for pair, count in report.anew]
    found.append(
        ReportTable("anew", "Queries asked anew", ("query", "the next query", "times"), anew)
    )
    words = [(word, f"{count:,}") for word, count in report.new_words[:SHOWN]]
    found.append(
        ReportTable("new-words", "Words that no document has", ("word", "searches"), words)
    )
    columns = ("from (UTC)", "searches", "weak", "asked anew", "opened", "median ms")
    times = [
        (_moment(each.start), f"{each.searches:,}", _share(each.weak, each.searches),
         _share(each.anew, each.searches), _share(each.clicked, each.searches),
         f"{each.milliseconds:.2f}")
        for each in report.periods
    ]  # fmt: skip
    found.append(ReportTable("times", "By time", columns, times))
    duels = [
        (each.challenger, *(f"{n:,}" for n in (each.searches, each.clicks, each.wins, each.losses)))
        for each in report.duels
    ]
    of_duel = ("challenger", "searches", "opened", "prefer it", "prefer today's")
    found.append(ReportTable("challengers", "Challengers", of_duel, duels))
    return [each for each in found if each.rows]


def write_tables(report: Report, folder: Path) -> None:
    """Write each table as CSV, and the plot as SVG, into a folder.

    :raises StorageError: When the disk refuses.
    """
    with disk.storage_errors(folder):
        disk.make_directory(folder, parents=True, exist_ok=True)
        for table in tables_of(report):
            written = io.StringIO()
            csv.writer(written).writerows([table.columns, *table.rows])
            disk.write(folder / f"{table.name}.csv", written.getvalue())
        disk.write(folder / "times.svg", plot_of(report.periods))


def plot_of(periods: Sequence[Period]) -> str:
    """The searches of each period as bars in SVG, the weak ones at the foot of each bar."""
    most = max((each.searches for each in periods), default=1)
    step = _WIDTH / max(1, len(periods))
    bars = "".join(_bars(periods, step, (_HEIGHT - _HEAD - _FOOT) / most))
    ends = [_moment(each.start) for each in (*periods[:1], *periods[-1:])]
    labels = "".join(
        f'<text x="{x}" y="{_HEIGHT - 4}" text-anchor="{anchor}" fill="{_MUTED}">{label}</text>'
        for x, anchor, label in zip((0, _WIDTH), ("start", "end"), ends, strict=False)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'font-family="sans-serif" font-size="11"><rect width="{_WIDTH}" height="{_HEIGHT}" '
        f'fill="white"/>{bars}{labels}<text x="{_WIDTH}" y="12" text-anchor="end" '
        f'fill="{_INK}">at most {most:,} searches; orange: weak</text></svg>'
    )


def _bars(periods: Sequence[Period], step: float, scale: float) -> Iterator[str]:
    for number, period in enumerate(periods):
        for count, colour in ((period.searches, _GOOD), (period.weak, _WEAK)):
            height = count * scale
            yield (
                f'<rect x="{number * step:.1f}" y="{_HEIGHT - _FOOT - height:.1f}" '
                f'width="{max(1, step - 2):.1f}" height="{height:.1f}" fill="{colour}"/>'
            )


def _row(each: QueryFigures) -> tuple[str, ...]:
    counts = (each.searches, each.weak, each.anew, each.clicked)
    return each.query, *(f"{count:,}" for count in counts), f"{each.milliseconds:.2f}"


def _share(some: int, of: int) -> str:
    return f"{some / of:.1%}"


def _moment(start: datetime) -> str:
    return f"{start:%Y-%m-%d %H:%M}" if start.hour else f"{start:%Y-%m-%d}"
