"""Tables of several runs mark which improves on which."""

import math

import pytest

from measuring.comparison import PlainColumn, compare
from measuring.comparison_rendering import caption, to_latex, to_markdown
from swiftlet.errors import InvalidArgumentError

NUM_QUERIES = 12


def values(mean: float, spread: float = 0.01) -> dict[str, float]:
    """Values that lie half `spread` above, half below `mean`."""
    signs = [1, -1] * (NUM_QUERIES // 2)
    return {f"q{n}": mean + spread * sign for n, sign in enumerate(signs)}


# Against the baseline the differences are 0.1 ± 0.01 and 0.05 ± 0.1: with n = 12 the t statistics
# are mean / (spread * sqrt(n / (n - 1)) / sqrt(n)), that is 33.2 and 1.66.
BASELINE = values(0.4, 0.0)
CLEARLY_BETTER = values(0.5, 0.01)
PERHAPS_BETTER = values(0.45, 0.1)


def superscripts(runs, **settings):
    comparison = compare({name: {"c": {"MRR": run}} for name, run in runs.items()}, **settings)
    return {row.name: row.cells[0].improves_on for row in comparison.rows}


@pytest.mark.parametrize("test", ["t", "randomisation"])
def test_a_value_bears_the_letters_of_the_rows_it_improves_on(test):
    runs = {"base": BASELINE, "perhaps": PERHAPS_BETTER, "clear": CLEARLY_BETTER}
    assert superscripts(runs, test=test) == {"base": "", "perhaps": "", "clear": "a"}


def test_fewer_holes_are_better():
    runs = {name: {"c": {"Holes@10": run}} for name, run in
            {"base": BASELINE, "more": CLEARLY_BETTER}.items()}  # fmt: skip
    table = compare(runs)
    assert [row.cells[0].improves_on for row in table.rows] == ["b", ""]
    assert "**0.400**<sup>[b]</sup>" in to_markdown(table)


def test_letters_follow_the_order_of_the_rows():
    runs = {"clear": values(0.9), "base": BASELINE, "clearer than base": CLEARLY_BETTER}
    assert superscripts(runs) == {"clear": "bc", "base": "", "clearer than base": "b"}


def test_differences_below_the_level_are_significant():
    # t = 1.66 with 11 degrees of freedom: p = 0.125.
    runs = {"base": BASELINE, "perhaps": PERHAPS_BETTER}
    assert superscripts(runs, significance_level=0.12)["perhaps"] == ""
    assert superscripts(runs, significance_level=0.13)["perhaps"] == "a"


def test_a_correction_raises_the_bar_with_each_pair():
    # All twelve queries are better: p = 2 / 2^12 = 0.00049, times 3 pairs 0.0015.
    better = {query: value + 0.01 * (n + 1) for n, (query, value) in enumerate(BASELINE.items())}
    runs = {"base": BASELINE, "same": dict(BASELINE), "better": better}
    level = {"test": "randomisation", "significance_level": 0.001}
    assert superscripts(runs, **level)["better"] == "ab"
    assert superscripts(runs, correction="bonferroni", **level)["better"] == ""
    # Holm multiplies both p-values by 3: the second is not below the first.
    assert superscripts(runs, correction="holm", **level)["better"] == ""
    level["significance_level"] = 2 * 3 / 2**12
    assert superscripts(runs, correction="holm", **level)["better"] == "ab"


def test_equal_runs_have_no_letters():
    assert superscripts({"one": BASELINE, "other": dict(BASELINE)}) == {"one": "", "other": ""}


PAPER = compare(
    {
        "L=2 & co": {
            "TREC_DL": {"nDCG@10": BASELINE, "recall@1000": BASELINE},
            "sci|fact": {"MRR": PERHAPS_BETTER},
        },
        "L=4": {"TREC_DL": {"nDCG@10": BASELINE, "recall@1000": CLEARLY_BETTER}},
        "L=12 *": {
            "TREC_DL": {"nDCG@10": values(0.6), "recall@1000": CLEARLY_BETTER},
            "sci|fact": {"MRR": values(0.3, 0.0)},
        },
    },
    plain_columns=[PlainColumn("latency (ms)", {"L=2 & co": 15.62, "L=12 *": 79.1})],
)


def test_a_table_in_markdown():
    table, caption = to_markdown(PAPER).rstrip().split("\n\n")
    assert [" ".join(line.split()) for line in table.splitlines() if ":--" not in line] == [
        "| | run | TREC\\_DL nDCG@10 | TREC\\_DL recall@1000 | sci\\|fact MRR | latency (ms) |",
        "| [a] | L=2 \\& co | 0.400 | 0.400 | **0.450**<sup>[c]</sup> | 15.6 |",
        "| [b] | L=4 | 0.400 | **0.500**<sup>[a]</sup> | - | - |",
        "| [c] | L=12 \\* | **0.600**<sup>[ab]</sup> | **0.500**<sup>[a]</sup> | 0.300 | 79.1 |",
    ]
    assert caption == (
        "Superscripts name the rows on which a value improves significantly (two-sided paired "
        "Student's t-test over queries, p ≤ 0.01). The best value of a column is bold."
    )


def test_figures_of_a_markdown_table_stand_at_the_right():
    alignments = to_markdown(PAPER).splitlines()[1].strip("|").split("|")
    assert [cell.endswith(":") for cell in alignments] == [False, False, True, True, True, True]


def test_a_table_in_latex():
    assert to_latex(PAPER, decimals=2, label="table:daft") == (
        "\\begin{table}\n"
        "\\centering\n"
        "\\caption{Superscripts name the rows on which a value improves significantly (two-sided "
        "paired Student's t-test over queries, p $\\leq$ 0.01). The best value of a column is "
        "bold.}\n"
        "\\label{table:daft}\n"
        "\\begin{tabular}{llrrrr}\n"
        "\\toprule\n"
        "\\multicolumn{2}{c}{} & \\multicolumn{2}{c}{TREC\\_DL} & sci|fact &  \\\\\n"
        " & run & nDCG@10 & recall@1000 & MRR & latency (ms) \\\\\n"
        "\\midrule\n"
        "{[a]} & L=2 \\& co & 0.40 & 0.40 & \\textbf{0.45}\\textsuperscript{[c]} & 15.6 \\\\\n"
        "{[b]} & L=4 & 0.40 & \\textbf{0.50}\\textsuperscript{[a]} & -- & -- \\\\\n"
        "{[c]} & L=12 * & \\textbf{0.60}\\textsuperscript{[ab]} & "
        "\\textbf{0.50}\\textsuperscript{[a]} & 0.30 & 79.1 \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
        "\\end{table}\n"
    )


def test_equal_printed_values_are_all_bold():
    runs = {"one": values(0.5001), "other": values(0.4999), "last": values(0.4)}
    table = to_markdown(compare({name: {"c": {"MRR": run}} for name, run in runs.items()}))
    assert [line.count("**") for line in table.splitlines()[2:5]] == [2, 2, 0]


def test_a_caption_names_the_test_and_the_correction():
    runs = {name: {"c": {"MRR": BASELINE}} for name in "xyz"}
    comparison = compare(
        runs, test="randomisation", significance_level=0.05, correction="bonferroni"
    )
    assert (
        "(two-sided paired randomisation test over queries, p ≤ 0.05, Bonferroni-corrected over "
        "all pairs of rows in a column, at most 3)"
    ) in caption(comparison)


def test_a_run_alone_is_neither_bold_nor_captioned():
    comparison = compare({"alone": {"c": {"MRR": BASELINE}}})
    (row,) = to_markdown(comparison).splitlines()[2:]
    assert row.replace(" ", "") == "|[a]|alone|0.400|"
    assert "caption" not in to_latex(comparison)


@pytest.mark.parametrize(
    ("runs", "settings", "message"),
    [
        ({}, {}, "0 runs were given, but 1 to 26 can be compared"),
        ({str(n): {} for n in range(27)}, {}, "27 runs were given"),
        ({"x": {}}, {"significance_level": 1.0}, "significance_level is 1, but"),
        ({"x": {}}, {"significance_level": math.nan}, "significance_level is nan, but"),
        (
            {"x": {}},
            {"plain_columns": [PlainColumn("ms", {"y": 1.0})]},
            "the column 'ms' names 'y', which is not among the runs 'x'",
        ),
        ({"x": {"c": {"MRR": {}}}}, {}, "'x' has no queries for MRR on 'c'"),
        (
            {"x": {"c": {"MRR": BASELINE}}, "y": {"c": {"MRR": {"q1": 0.5, "else": 1.0}}}},
            {},
            "'x' and 'y' cannot be compared by MRR on 'c': they have 12 and 2 queries, of which 1",
        ),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(runs, settings, message):
    with pytest.raises(InvalidArgumentError, match=message):
        compare(runs, **settings)
