"""Tables of several runs mark which improves on which."""

from measuring.comparison import compare, to_markdown

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


def superscripts(runs):
    table = compare("c", {name: {"MRR": run} for name, run in runs.items()})
    return {row["name"]: row["cells"][0]["improves_on"] for row in table["rows"]}


def test_a_value_bears_the_letters_of_the_rows_it_improves_on():
    runs = {"base": BASELINE, "perhaps": PERHAPS_BETTER, "clear": CLEARLY_BETTER}
    assert superscripts(runs) == {"base": "", "perhaps": "", "clear": "a"}


def test_fewer_holes_are_better():
    table = compare("c", {"base": {"Holes@10": BASELINE}, "more": {"Holes@10": CLEARLY_BETTER}})
    assert [row["cells"][0]["improves_on"] for row in table["rows"]] == ["b", ""]
    assert "**0.400**<sup>[b]</sup>" in to_markdown(table)


def test_letters_follow_the_order_of_the_rows():
    runs = {"clear": values(0.9), "base": BASELINE, "clearer than base": CLEARLY_BETTER}
    assert superscripts(runs) == {"clear": "bc", "base": "", "clearer than base": "b"}


def test_equal_runs_have_no_letters():
    assert superscripts({"one": BASELINE, "other": dict(BASELINE)}) == {"one": "", "other": ""}


def test_a_table_in_markdown():
    paper = compare(
        "TREC_DL",
        {
            "L=2 & co": {"nDCG@10": BASELINE, "MRR|10": BASELINE},
            "L=4": {"nDCG@10": BASELINE, "MRR|10": CLEARLY_BETTER},
            "L=12 *": {"nDCG@10": values(0.6), "MRR|10": CLEARLY_BETTER},
        },
        plain_columns=[
            {
                "title": "ms",
                "figures": {"L=2 & co": 15.62, "L=4": 29, "L=12 *": 79.1},
                "decimals": 1,
            }
        ],
    )
    table, caption = to_markdown(paper).rstrip().split("\n\n")
    assert [" ".join(line.split()) for line in table.splitlines() if ":--" not in line] == [
        "| | run | TREC\\_DL nDCG@10 | TREC\\_DL MRR\\|10 | ms |",
        "| [a] | L=2 \\& co | 0.400 | 0.400 | 15.6 |",
        "| [b] | L=4 | 0.400 | **0.500**<sup>[a]</sup> | 29.0 |",
        "| [c] | L=12 \\* | **0.600**<sup>[ab]</sup> | **0.500**<sup>[a]</sup> | 79.1 |",
    ]
    assert caption == (
        "Superscripts name the rows on which a value improves significantly (two-sided paired "
        "Student's t-test over queries, p ≤ 0.01). The best value of a column is bold."
    )


def test_equal_printed_values_are_all_bold():
    runs = {"one": values(0.5001), "other": values(0.4999), "last": values(0.4)}
    table = to_markdown(compare("c", {name: {"MRR": run} for name, run in runs.items()}))
    assert [line.count("**") for line in table.splitlines()[2:5]] == [2, 2, 0]


def test_a_run_alone_is_neither_bold_nor_captioned():
    table = to_markdown(compare("c", {"alone": {"MRR": BASELINE}}))
    assert "0.400" in table
    assert "**" not in table
    assert "Superscripts" not in table
