"""The plan that is calculated from measured figures."""

import json

import numpy as np
import pytest

from benchmarks.scale import busy, node_ms, planned, search_ms
from measuring.results import RESULTS, Figures


@pytest.fixture(scope="module")
def figures() -> Figures:
    found: Figures = json.loads((RESULTS / "scale.json").read_text("utf-8"))
    return found


def test_the_plan_follows_from_the_figures(figures: Figures) -> None:
    plan = planned(figures)
    assert plan == {name: figures[name] for name in plan}


def test_a_search_of_the_largest_measured_size_takes_what_was_measured(figures: Figures) -> None:
    largest = figures["measured"][-1]
    assert search_ms(largest["passages"], figures) == pytest.approx(largest["p50_ms"])
    assert search_ms(4 * largest["passages"], figures) == pytest.approx(2 * largest["p50_ms"])
    assert search_ms(500_000, figures) < search_ms(1_000_000, figures)


def test_nodes_have_the_memory_and_keep_the_bound(figures: Figures) -> None:
    for row in figures["sizes"]:
        own = row["passages"] / row["nodes"]
        assert node_ms(own, figures) == pytest.approx(row["node_ms"])
        assert row["node_ms"] <= figures["assumed"]["most_ms"]
        assert own * 768 <= figures["assumed"]["used"] * figures["assumed"]["gigabytes"] * 1e9
        assert row["fits"] == (row["passages"] <= figures["most"])


def test_more_nodes_answer_later_and_hedging_helps(figures: Figures) -> None:
    tail = figures["tail"]
    assert [row["plain"]["p50"] for row in tail] == sorted(row["plain"]["p50"] for row in tail)
    assert all(row["hedged"]["p99"] <= row["plain"]["p99"] for row in tail)


def test_searches_of_a_busy_node_wait_as_long_as_theory_says() -> None:
    """With times that do not vary, the mean wait is load / (2 (1 - load)) times such a time."""
    found = busy(np.full(100, 2.0), np.random.default_rng(1))
    assert found.min() == 2
    assert found.mean() - 2 == pytest.approx(1.0, rel=0.1)
