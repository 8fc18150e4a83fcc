"""A comparison as a table for a Markdown page or a LaTeX paper."""

import re
from dataclasses import dataclass

from measuring.comparison import Comparison
from swiftlet.evaluation.significance import TEST_TITLES
from swiftlet.extras import extra

_CORRECTIONS = {"bonferroni": "Bonferroni-corrected", "holm": "Holm-corrected"}
_MARKDOWN_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&])")


@dataclass(frozen=True, slots=True)
class _Notation:
    letter: str
    bold: str
    superscript: str
    missing: str


_MARKDOWN = _Notation("[{}]", "**{}**", "<sup>[{}]</sup>", "-")
# The letter is in braces: LaTeX reads a bracket after \\ as an optional argument.
_LATEX = _Notation("{{[{}]}}", "\\textbf{{{}}}", "\\textsuperscript{{[{}]}}", "--")


def caption(comparison: Comparison) -> str:
    """The meaning of superscripts and bold type in the table; "" for a single run."""
    if not comparison.num_pairs:
        return ""
    test = (
        f"two-sided paired {TEST_TITLES[comparison.test]} over queries, "
        f"p ≤ {comparison.significance_level:g}"
    )
    if comparison.correction != "none":
        test += (
            f", {_CORRECTIONS[comparison.correction]} over all pairs of rows in a column, "
            f"at most {comparison.num_pairs}"
        )
    return (
        f"Superscripts name the rows on which a value improves significantly ({test}). "
        "The best value of a column is bold."
    )


def to_markdown(comparison: Comparison, *, decimals: int = 3) -> str:
    """The table in GitHub's Markdown, followed by its caption; values with `decimals` places.

    :raises MissingExtraError: When tabulate is not installed.
    """
    with extra("evaluation"):
        from tabulate import tabulate
    titles = [_escaped(" ".join(title)) for title in _titles(comparison)]
    rows = [
        [letter, _escaped(name), *cells]
        for letter, name, *cells in _rows(comparison, decimals, _MARKDOWN)
    ]
    alignment = ["left", "left", *["right"] * len(titles)]
    table = tabulate(rows, ["", "run", *titles], "pipe", colalign=alignment, disable_numparse=True)
    text = caption(comparison)
    return f"{table}\n\n{_escaped(text)}\n" if text else f"{table}\n"


def to_latex(comparison: Comparison, *, decimals: int = 3, label: str | None = None) -> str:
    """The table as a LaTeX `table` with the rules of booktabs; values with `decimals` places.

    Names and titles are escaped.

    :raises MissingExtraError: When pandas or Jinja2 is not installed.
    """
    with extra("evaluation"):
        import jinja2  # noqa: F401  pandas loads it late
        import pandas as pd
    titles = [("", ""), ("", "run"), *_titles(comparison)]
    rows = _rows(comparison, decimals, _LATEX)
    table = pd.DataFrame(rows, columns=pd.MultiIndex.from_tuples(titles)).style
    table = table.hide(axis="index").format_index(axis="columns", escape="latex")
    return str(
        table.format(escape="latex", subset=[titles[1]]).to_latex(
            column_format=f"ll{'r' * (len(titles) - 2)}",
            multicol_align="c",
            hrules=True,
            position_float="centering",
            caption=caption(comparison).replace("≤", "$\\leq$") or None,
            label=label,
        )
    )


def _escaped(text: str) -> str:
    return _MARKDOWN_SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _titles(comparison: Comparison) -> list[tuple[str, str]]:
    """(collection, metric) of each column; ("", title) of the plain ones."""
    titles = [(column.collection, column.metric) for column in comparison.columns]
    return titles + [("", plain.title) for plain in comparison.plain_columns]


def _rows(comparison: Comparison, decimals: int, notation: _Notation) -> list[list[str]]:
    best = _best(comparison, decimals)
    rows = []
    for row in comparison.rows:
        printed = [notation.letter.format(row.letter), row.name]
        for cell, best_value in zip(row.cells, best, strict=True):
            value = notation.missing if cell is None else f"{cell.mean:.{decimals}f}"
            text = notation.bold.format(value) if value == best_value else value
            if cell is not None and cell.improves_on:
                text += notation.superscript.format(cell.improves_on)
            printed.append(text)
        for plain in comparison.plain_columns:
            known = row.name in plain.figures
            value = f"{plain.figures[row.name]:.{plain.decimals}f}" if known else notation.missing
            printed.append(value)
        rows.append(printed)
    return rows


def _best(comparison: Comparison, decimals: int) -> list[str]:
    """The best value of each column as printed; "" for a column with a single value.

    Values that print alike are all bold, since a reader sees no difference between them.
    """
    best = []
    for place, column in enumerate(comparison.columns):
        means = [cell.mean for row in comparison.rows if (cell := row.cells[place]) is not None]
        found = min(means) if column.fewer_is_better else max(means)
        best.append(f"{found:.{decimals}f}" if len(means) > 1 else "")
    return best
