"""Tables of several runs."""

import pytest

from swiftlet.corpora.trec import write_run
from swiftlet.errors import EvaluationError, InvalidArgumentError
from swiftlet.evaluation.comparison import compare_runs, lettered
from swiftlet.evaluation.metrics import evaluate, evaluate_per_query
from tests.command_line import refusal, swiftlet

# Against 0.4, the differences are 0.1 ± 0.01 and 0.05 ± 0.1: the t statistics are 33.2 and 1.66.
EVEN = {f"q{number}": 0.4 for number in range(12)}
CLEARLY_MORE = {f"q{number}": 0.5 + 0.01 * (-1) ** number for number in range(12)}
PERHAPS_MORE = {f"q{number}": 0.45 + 0.1 * (-1) ** number for number in range(12)}

QRELS = {f"q{number}": {"best": 3, "fair": 1} for number in range(12)}
GOOD = {query: {"best": 2.0, "fair": 1.0} for query in QRELS}
BAD = {query: {"fair": 2.0, "best": 1.0} for query in QRELS}


@pytest.mark.parametrize(
    ("metric", "letters"), [("MRR", ["", "", "ad", ""]), ("Holes@10", ["c", "", "", "c"])]
)
def test_a_value_bears_the_letters_of_the_runs_on_which_it_improves(metric, letters):
    runs = {"even": EVEN, "perhaps": PERHAPS_MORE, "clear": CLEARLY_MORE, "same": {**EVEN}}
    rows = lettered({name: {metric: values} for name, values in runs.items()})
    assert [row.letter for row in rows] == [*"abcd"]
    assert [row.cells[0].improves_on for row in rows] == letters
    assert rows[2].cells[0].mean == pytest.approx(0.5)


def test_more_runs_than_letters_are_refused():
    with pytest.raises(InvalidArgumentError, match="27 runs need more letters than there are"):
        lettered({f"{number}": {"MRR": EVEN} for number in range(27)})


def test_a_grade_below_relevant_from_is_not_relevant_but_counts_in_ndcg():
    spelled = ["nDCG@10", "MRR@10", "R@1", "P@1"]
    plain, strict = (evaluate_per_query(BAD, QRELS, spelled, None, grade) for grade in (1, 2))
    assert strict["nDCG@10"] == plain["nDCG@10"] == evaluate_per_query(BAD, QRELS)["ndcg@10"]
    assert plain["MRR@10"]["q1"] == 1
    assert {name: strict[name]["q1"] for name in spelled[1:]} == {"MRR@10": 0.5, "R@1": 0, "P@1": 0}
    assert evaluate(GOOD, QRELS, ["R@1"]) == {"R@1": 0.5}
    with pytest.raises(EvaluationError, match="from is 4, but the highest grade of the qrels is 3"):
        compare_runs({"good": GOOD}, QRELS, ["MRR"], relevant_from=4)


def test_runs_become_a_table_for_a_terminal_or_a_paper(tmp_path):
    files = [tmp_path / "b_m.run", tmp_path / "good.run"]
    for file, run in zip(files, (BAD, GOOD), strict=True):
        write_run(file, run, "x")
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("".join(f"{q} 0 {d} {g}\n" for q, of in QRELS.items() for d, g in of.items()))
    options = ("--qrels", qrels, "--metric", "MRR@10", "--relevant-from", 2)
    shown = swiftlet("table", *files, *options)
    assert shown.exit_code == 0, shown.output
    assert "12 judged queries" in shown.stdout
    assert "[b]" in shown.stdout
    assert "1.0000 a" in shown.stdout
    assert "0.5000" in shown.stdout
    latex = swiftlet("table", *files, *options, "--latex").stdout.splitlines()
    assert latex == [
        r"\begin{tabular}{lll}", r"\toprule", r"& run & MRR@10 \\", r"\midrule",
        r"{[a]} & b\_m & .500 \\", r"{[b]} & good & 1.000$^{a}$ \\",
        r"\bottomrule", r"\end{tabular}",
    ]  # fmt: skip
    assert "is 4, but the highest grade of the qrels is 3" in refusal(
        swiftlet("table", *files, *options[:4], "--relevant-from", 4)
    )
