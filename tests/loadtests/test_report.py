"""The tables of figures that the other tests do not meet."""

from pathlib import Path

import pytest

from loadtests.arguments import Plan
from loadtests.measure import Measurement
from loadtests.report import write_report
from loadtests.systems import SystemUnderTest
from measuring.http_client import NO_ANSWER
from measuring.load_figures import CHANGED, Figures, fewest_requests
from measuring.traffic import Mix
from tests.measuring.test_load_figures import load_of

PLAN = Plan(Path("queries.txt"), ["a"], Mix(), [50.0], 1.0, 0.1, 1.0, 0, [0], [1])


def measurement_of(figures: Figures, name: str = "one", *, after: float = 210.0) -> Measurement:
    system = SystemUnderTest(name, "", "/", lambda: pytest.fail("it is not to be started"))
    rates = dict.fromkeys((50.0, 150.0), figures)
    saturation = dict.fromkeys(rates, (200.0, after))
    return Measurement(system, 200.0, {1: figures}, (), rates, saturation)


def report_on(folder: Path, measurement: Measurement) -> str:
    write_report([measurement], PLAN, folder, command="", machine="")
    return squeezed((folder / "report.md").read_text())


def squeezed(text: str) -> str:
    """The text without the spaces that align the columns of tables."""
    return " ".join(text.split())


def figures_of(slow: int, *, requests: int = 100) -> Figures:
    """Requests of 10 ms, the last `slow` of them of 100 ms."""
    load = load_of([200] * (50 + requests))
    for each in load.exchanges[len(load.exchanges) - slow :]:
        each.finished += 0.09
    return Figures(load, offered=100.0)


@pytest.mark.parametrize(
    ("figures", "verdict"),
    [
        (figures_of(0), "1.00 times | kept"),
        (figures_of(5), "10.00 times | **missed**"),
        (figures_of(0, requests=60), "- | too few requests to tell"),
    ],
)
def test_whether_the_bound_was_kept_is_said(tmp_path, figures, verdict):
    line = "| one | p99 at 50% of saturation is at most 5 times p50 | "
    assert f"{line}{verdict} |" in report_on(tmp_path, measurement_of(figures))


def test_a_bound_says_whether_the_machine_was_as_fast_all_the_while(tmp_path):
    verdict = f"1.00 times | kept, while {CHANGED} |"
    assert verdict in report_on(tmp_path, measurement_of(figures_of(0), after=100.0))


def test_a_percentile_that_no_request_is_above_is_left_out(tmp_path):
    assert [fewest_requests(p) for p in (50.0, 90.0, 95.0, 99.0, 99.9)] == [2, 10, 20, 100, 1_000]
    text = report_on(tmp_path, measurement_of(figures_of(0, requests=60)))
    assert "| 10 | 10 | 10 | - | - | 10 |" in text
    assert "p99 needs 100 requests, p99.9 needs 1,000." in text


@pytest.mark.parametrize(
    "statuses", [[200], [429], [NO_ANSWER], [200, 429, 503, 504, 500, 404, 422, 418, NO_ANSWER]]
)
def test_whatever_was_answered_can_be_told(statuses, tmp_path):
    figures = Figures(load_of(statuses * 150), offered=100.0)
    text = report_on(tmp_path, measurement_of(figures))
    assert f"| {figures.rejected_share:.1%} | {figures.failed} |" in text
