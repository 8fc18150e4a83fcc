"""A comparison as a table for a Markdown page or a LaTeX paper."""

import re
from dataclasses import dataclass
from itertools import groupby

from evaluation.comparison import Comparison, ComparisonRow

_TESTS = {"t": "Student's t-test", "randomisation": "randomisation test"}
_CORRECTIONS = {"bonferroni": "Bonferroni-corrected", "holm": "Holm-corrected"}

_MARKDOWN_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&])")
_LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "≤": r"$\leq$",
} | {character: f"\\{character}" for character in "&%$#_{}"}


def _escape_markdown(text: str) -> str:
    return _MARKDOWN_SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _escape_latex(text: str) -> str:
    return "".join(_LATEX_SPECIAL.get(character, character) for character in " ".join(text.split()))


@dataclass(frozen=True, slots=True)
class _Notation:
    bold: str
    superscript: str
    missing: str


_MARKDOWN = _Notation("**{}**", "<sup>[{}]</sup>", "-")
_LATEX = _Notation("\\textbf{{{}}}", "\\textsuperscript{{[{}]}}", "--")


def caption(comparison: Comparison) -> str:
    """What superscripts and bold type mean in a table of `comparison`; "" where it has neither."""
    if not comparison.num_pairs:
        return ""
    test = (
        f"two-sided paired {_TESTS[comparison.test]} over queries, "
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
    """The table in GitHub's Markdown, followed by its caption; values with `decimals` places."""
    titles = [f"{column.collection} {column.metric}" for column in comparison.columns]
    titles += [plain.title for plain in comparison.plain_columns]
    best = _best(comparison, decimals)
    lines = [
        _markdown_line(["", "run", *map(_escape_markdown, titles)]),
        _markdown_line(["---", "---", *["---:"] * len(titles)]),
        *(
            _markdown_line(
                [
                    f"[{row.letter}]",
                    _escape_markdown(row.name),
                    *_cells(row, best, decimals, _MARKDOWN),
                    *_plain_figures(row, comparison, _MARKDOWN),
                ]
            )
            for row in comparison.rows
        ),
    ]
    if text := caption(comparison):
        lines += ["", _escape_markdown(text)]
    return "\n".join(lines) + "\n"


def to_latex(comparison: Comparison, *, decimals: int = 3, label: str | None = None) -> str:
    """The table as a LaTeX `table` with the rules of booktabs; values with `decimals` places.

    Names and titles are escaped.
    """
    width = len(comparison.columns) + len(comparison.plain_columns)
    best = _best(comparison, decimals)
    text = caption(comparison)
    return "\n".join(
        [
            "\\begin{table}",
            "\\centering",
            *([f"\\caption{{{_escape_latex(text)}}}"] if text else []),
            *([f"\\label{{{label}}}"] if label is not None else []),
            f"\\begin{{tabular}}{{ll{'r' * width}}}",
            "\\toprule",
            *_latex_heading(comparison),
            "\\midrule",
            *(
                _latex_line(
                    [
                        # In braces: a bracket after \\ would begin an optional argument.
                        f"{{[{row.letter}]}}",
                        _escape_latex(row.name),
                        *_cells(row, best, decimals, _LATEX),
                        *_plain_figures(row, comparison, _LATEX),
                    ]
                )
                for row in comparison.rows
            ),
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
            "",
        ]
    )


def _latex_heading(comparison: Comparison) -> list[str]:
    """A line of collections, each above its metrics, a rule below each, and a line of titles."""
    groups, rules, first = [], [], 3
    for collection, members in groupby(comparison.columns, lambda column: column.collection):
        span = len(list(members))
        groups.append(f"\\multicolumn{{{span}}}{{c}}{{{_escape_latex(collection)}}}")
        rules.append(f"\\cmidrule(lr){{{first}-{first + span - 1}}}")
        first += span
    titles = [column.metric for column in comparison.columns]
    titles += [plain.title for plain in comparison.plain_columns]
    heading = [_latex_line(["", "run", *map(_escape_latex, titles)])]
    if groups:
        above = _latex_line(["", "", *groups, *[""] * len(comparison.plain_columns)])
        heading = [above, " ".join(rules), *heading]
    return heading


def _best(comparison: Comparison, decimals: int) -> list[str]:
    """How the best value of each column prints; "" where it has no other beside it.

    All that print alike are bold: a reader could not tell why one is and another is not.
    """
    best = []
    for column in range(len(comparison.columns)):
        means = [cell.mean for row in comparison.rows if (cell := row.cells[column]) is not None]
        best.append(f"{max(means):.{decimals}f}" if len(means) > 1 else "")
    return best


def _cells(row: ComparisonRow, best: list[str], decimals: int, notation: _Notation) -> list[str]:
    printed = []
    for cell, best_value in zip(row.cells, best, strict=True):
        if cell is None:
            printed.append(notation.missing)
            continue
        value = f"{cell.mean:.{decimals}f}"
        printed.append(
            (notation.bold.format(value) if value == best_value else value)
            + (notation.superscript.format(cell.improves_on) if cell.improves_on else "")
        )
    return printed


def _plain_figures(row: ComparisonRow, comparison: Comparison, notation: _Notation) -> list[str]:
    return [
        f"{plain.figures[row.name]:.{plain.decimals}f}"
        if row.name in plain.figures
        else notation.missing
        for plain in comparison.plain_columns
    ]


def _markdown_line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _latex_line(cells: list[str]) -> str:
    return f"{' & '.join(cells)} \\\\"
