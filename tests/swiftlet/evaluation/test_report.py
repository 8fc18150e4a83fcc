import re

import pytest
from rich.console import Console

from swiftlet.evaluation.metrics import evaluate_per_query
from swiftlet.evaluation.report import Report, make_report
from swiftlet.evaluation.significance import TESTS
from swiftlet.types import Qrels, Run

QUERY_IDS = [f"q{number}" for number in range(8)]
QRELS: Qrels = {query_id: {"a": 1} for query_id in QUERY_IDS}
PERFECT: Run = {query_id: {"a": 1.0, "b": 0.5} for query_id in QUERY_IDS}
MIXED: Run = {query_id: {"a": 1.0, "b": 0.5 + number} for number, query_id in enumerate(QUERY_IDS)}


def printed(report: Report) -> list[str]:
    """The lines of the table, with one space in the place of rules and padding."""
    console = Console(width=100)
    with console.capture() as capture:
        console.print(report.table())
    return [" ".join(re.sub("[│┃]", " ", line).split()) for line in capture.get().splitlines()]


def test_a_report_shows_the_default_metrics_and_the_number_of_queries():
    lines = printed(make_report(PERFECT, QRELS, name="runs/[x].trec"))
    assert lines[0] == "8 judged queries"
    assert [line for line in lines if "1.0000" in line] == [
        "nDCG@10 1.0000",
        "MRR@10 1.0000",
        "recall@100 1.0000",
    ]
    assert any("runs/[x].trec" in line for line in lines)
    assert not any("difference" in line for line in lines)


def test_a_report_against_a_baseline_shows_difference_and_p():
    report = make_report(MIXED, QRELS, metrics=["mrr", "R@5"], baseline=PERFECT)
    lines = printed(report)
    assert "metric run baseline difference p" in lines
    # One query of eight has its document first, the others second: MRR 9 / 16.
    assert "MRR 0.5625 1.0000 -0.4375 < 0.001" in lines
    assert "recall@5 1.0000 1.0000 +0.0000 1.000" in lines


def test_the_report_mentions_that_queries_without_results_count_0():
    run = {"q0": {"a": 1.0}, "q1": {}}
    report = make_report(PERFECT, QRELS, baseline=run, baseline_name="old")
    assert (report.num_unanswered, report.baseline_num_unanswered) == (0, 7)
    assert "old: no results for 7 of the queries, which count 0" in printed(report)


def test_queries_are_divided_by_the_mean_length_of_their_relevant_documents():
    lengths = {"a": 100, "b": 300, "c": 1000}
    qrels = {"q1": {"a": 1, "b": 0}, "q2": {"a": 1, "b": 1}, "q3": {"c": 1}, "q4": {"b": 0}}
    run = {query_id: {"a": 2.0, "c": 1.0} for query_id in qrels}
    report = make_report(
        run, qrels, metrics=["MRR"], num_tokens=lengths.__getitem__, length_bins=[100, 200, 500]
    )
    # The mean of q2 is 200; q4 has no relevant document; no mean is between 200 and 500.
    assert [(each.most_tokens, each.num_queries, each.means) for each in report.bins] == [
        (100, 1, {"MRR": 1.0}),
        (200, 1, {"MRR": 1.0}),
        (None, 1, {"MRR": 0.5}),
    ]
    lines = printed(report)
    assert "101 to 200 tokens: 1 query" in lines
    assert lines[lines.index("above 500 tokens: 1 query") + 1] == "MRR 0.5000"


@pytest.mark.parametrize("test", ["t", "wilcoxon"])
def test_a_report_is_tested_as_asked(test):
    report = make_report(MIXED, QRELS, metrics=["mrr"], baseline=PERFECT, test=test)
    values = evaluate_per_query(MIXED, QRELS, ["mrr"])["mrr"]
    expected = TESTS[test](values, dict.fromkeys(QUERY_IDS, 1.0))
    assert report.comparisons["MRR"] == expected


@pytest.mark.parametrize("test", ["t", "wilcoxon"])
def test_the_queries_of_a_length_are_compared_with_those_of_the_baseline(test):
    lengths = {"q1": 10, "q2": 20, "q3": 20, "q4": 20}
    qrels = {query_id: {query_id: 1} for query_id in lengths}
    run = {query_id: {query_id: 1.0} for query_id in lengths}
    worse = {**run, "q2": {"x": 2.0, "q2": 1.0}, "q1": {"x": 2.0, "q1": 1.0}}
    report = make_report(
        run, qrels, metrics=["MRR"], baseline=worse, test=test,
        num_tokens=lengths.__getitem__, length_bins=[10],
    )  # fmt: skip
    few, many = (each.comparisons["MRR"] for each in report.bins)
    assert (few.difference, many.difference) == (0.5, pytest.approx(0.5 / 3))
    expected = TESTS[test]({"q2": 1.0, "q3": 1.0, "q4": 1.0}, {"q2": 0.5, "q3": 1.0, "q4": 1.0})
    assert many == expected
    lines = printed(report)
    row = lines[lines.index("above 10 tokens: 3 queries") + 1]
    assert row.startswith("MRR 1.0000 0.8333 +0.1667")
