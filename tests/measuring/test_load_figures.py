"""What is made of the times of requests, on times that can be checked by hand."""

import math

import pytest

from measuring.http_client import NO_ANSWER, Exchange, Request
from measuring.load_figures import Figures
from measuring.loads import Load

REQUEST = Request("single", "/search", b"{}")


def load_of(
    statuses: list[int], *, late_ms: float = 0.0, latency_ms: float = 10.0, cpu_seconds: float = 0.1
) -> Load:
    """A request every 10 ms, from half a second before the measurement of one second on."""
    exchanges = []
    for number, status in enumerate(statuses):
        scheduled = 99.5 + number / 100
        begun = scheduled + late_ms / 1000
        finished = scheduled + latency_ms / 1000
        exchanges.append(Exchange(REQUEST, scheduled, begun, begun, finished, status))
    return Load(exchanges, 100.0, 1.0, cpu_seconds, 1.0, 0)


def test_only_what_was_scheduled_after_the_warm_up_counts():
    figures = Figures(load_of([200] * 200), offered=100.0)
    assert len(figures.measured) == pytest.approx(100, abs=1)
    assert figures.answered_rate == len(figures.measured)


def test_rejections_are_no_failures_and_their_latency_is_none_of_an_answer():
    figures = Figures(load_of([200] * 50 + [200, 429, 503, 504, 500, NO_ANSWER, 404] * 10), 100.0)
    assert figures.statuses[429] == 10
    assert figures.rejected_share == pytest.approx(30 / 70)
    assert figures.failed == 30
    assert len(figures.latencies) == 20


def test_latency_counts_from_the_scheduled_moment():
    figures = Figures(load_of([200] * 150, late_ms=4.0, latency_ms=10.0), offered=100.0)
    assert figures.latency(50.0) == pytest.approx(10.0)
    assert figures.late(99.0) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("late_ms", "cpu_seconds", "reasons"),
    [
        (0.5, 0.5, []),
        (
            2.0,
            0.5,
            [
                "the generator's lateness (p50 2.00 ms) is more than 10% of the latency (10.00 ms)",
                "the generator's lateness (p99 2.00 ms) is more than 10% of the latency (10.00 ms)",
            ],
        ),
        (0.5, 0.95, ["the generator used 95% of a core, more than 90%"]),
    ],
)
def test_figures_that_the_generator_made_are_not_to_be_trusted(late_ms, cpu_seconds, reasons):
    load = load_of([200] * 150, late_ms=late_ms, cpu_seconds=cpu_seconds)
    assert Figures(load, offered=100.0).warnings == reasons


def test_of_nothing_answered_there_are_no_percentiles():
    figures = Figures(load_of([429] * 150), offered=100.0)
    assert math.isnan(figures.latency(50.0))
    assert math.isnan(figures.mean_latency)
    assert figures.stages == {}
    assert figures.warnings == []
