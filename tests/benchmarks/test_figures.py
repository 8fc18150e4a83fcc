"""Figures of the benchmarks on values that can be checked by hand."""

import pytest

from benchmarks.service import (
    LOOKUP,
    ONE_CORE,
    SWIFTLET,
    TWO_PROCESSES,
    over,
    stage_microseconds,
    targets,
)
from measuring.http_client import Exchange, search


def test_a_ratio_is_the_median_of_the_rounds_ratios():
    rates = over({"fast": [10.0, 40.0, 90.0], "slow": [1.0, 2.0, 3.0]}, "slow")
    assert rates["fast"]["over"] == 20
    assert rates["fast"]["median"] == 40
    assert rates["slow"]["over"] == 1


def test_stages_the_rest_and_the_outside_add_up_to_the_latency():
    exchange = Exchange(search("a"), scheduled=5.0, finished=5.004)
    exchange.server_timing = b"queue;dur=0.5, encode;dur=1.5, total;dur=3.0"
    stages = stage_microseconds(exchange)
    assert stages["encode"] == 1500
    assert stages["the rest inside the application"] == pytest.approx(1000)
    whole = stages.pop("the whole, at the client")
    assert sum(stages.values()) == pytest.approx(whole) == pytest.approx(4000)


@pytest.mark.parametrize(
    ("ratio", "held", "kept"),
    [(1.79, 130, [False, True]), (1.8, 131, [True, False]), (1.8, 130, [True, True])],
)
def test_a_target_is_kept_or_missed_by_its_figure(ratio, held, kept):
    medians = {
        "latency_ratio": 1.5, "rate_ratio": 0.9,
        "in_process_ms": 0.3, "in_process_rate": 2000, "cpu_ms": 0.74,
    }  # fmt: skip
    http = {name: {"median": value} for name, value in medians.items()}
    lookup = {**http, "cpu_ms": {"median": 0.76}, "stages_us": {"encode": 20.4}}
    cores = {
        "rates": {TWO_PROCESSES: {"over": ratio}},
        "resident_bytes": {ONE_CORE: 100, TWO_PROCESSES: held},
    }
    found = targets(
        {
            "http": {"dense": http, "look-up": lookup},
            "cores": {"hybrid": cores},
            "plain": {SWIFTLET: {"over": 20.0}, LOOKUP: {"over": 39.9}},
        },
        20.0,
        40.0,
        0.45,
    )
    ratios, times = [True, True, True, False, *kept], [True, True, False, False, False]
    assert [target["kept"] for target in found] == ratios + times
    assert [target["measured"] for target in found[-2:]] == ["0.260", "20"]
