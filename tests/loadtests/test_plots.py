"""The pictures of figures that the other tests do not meet."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from loadtests.measure import Measurement
from loadtests.plots import OUTSIDE, REST, _draw_stages, draw_all, stacked_stages
from loadtests.systems import SystemUnderTest
from measuring.http_client import NO_ANSWER
from measuring.load_figures import Figures
from service.wire.context import STAGES
from swiftlet.evaluation.plots.figures import new_figure
from tests.measuring.test_load_figures import load_of


def measurement_of(name: str, statuses: list[int]) -> Measurement:
    figures = Figures(load_of(statuses), offered=100.0)
    system = SystemUnderTest(name, "", "/", lambda: pytest.fail("it is not to be started"))
    return Measurement(system, 200.0, {1: figures}, (), {50.0: figures, 150.0: figures})


@pytest.mark.parametrize(
    "statuses", [[200], [429], [NO_ANSWER], [200, 429, 503, 504, 500, 404, 422, 418, NO_ANSWER]]
)
def test_whatever_was_answered_can_be_drawn(statuses: list[int], tmp_path: Path) -> None:
    services = [measurement_of(name, statuses * 150) for name in ("one", "other")]
    for name in draw_all(services, tmp_path):
        assert np.ptp(imread(tmp_path / name)) > 0.5


def test_the_stages_and_what_lies_outside_add_up_to_the_latency() -> None:
    load = load_of([200] * 150, latency_ms=10.0)
    for each in load.exchanges:
        each.server_timing = b"queue;dur=1.5, encode;dur=3.0, total;dur=6.0"
    stack = stacked_stages(Figures(load, offered=100.0))
    assert stack["queue"] == pytest.approx(1.5)
    assert stack[REST] == pytest.approx(1.5)
    assert sum(stack.values()) == pytest.approx(10.0)


def test_each_stage_of_the_service_is_drawn_in_a_colour_of_its_own() -> None:
    measurement = measurement_of("one", [200] * 150)
    ran = [stage for stage in STAGES if stage != "highlight"]
    times = {stage: 0.1 * (stage in ran) for stage in STAGES} | {"total": 5.0}
    timing = ", ".join(
        f"{name};dur={milliseconds}" for name, milliseconds in times.items()
    ).encode()
    for each in measurement.rates[50.0].load.exchanges:
        each.server_timing = timing
    (axes,) = new_figure(4, 3).axes
    _draw_stages(axes, measurement)
    assert [bars.get_label() for bars in axes.containers] == [*ran, REST, OUTSIDE]
    assert len({bars[0].get_facecolor() for bars in axes.containers}) == len(ran) + 2
