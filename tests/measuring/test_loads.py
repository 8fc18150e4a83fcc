"""Both kinds of load, on the real service and on servers whose latency is known."""

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest

from measuring.command_line import LoadTestError, Stopped
from measuring.http_client import NO_ANSWER, Request
from measuring.load_figures import Figures, find_saturation
from measuring.loads import (
    ANSWER_TIMEOUT_SECONDS,
    Load,
    closed_loop,
    open_loop,
    poisson_arrivals,
)  # fmt: skip
from measuring.traffic import Mix, read_queries, traffic
from service.wire.context import STAGES
from tests.measuring.counters import assert_counted, counted
from tests.service.conftest import running


@pytest.fixture
def requests(queries_file) -> Iterator[Request]:
    return traffic(read_queries(queries_file), Mix(4, 1, batch_queries=3), seed=1)


@pytest.fixture
def searches(queries_file) -> Iterator[Request]:
    return traffic(read_queries(queries_file), Mix(), seed=1)


def address_of(server: "subprocess.Popen[str]") -> str:
    assert server.stdout is not None
    return server.stdout.readline().strip()


def by_route_and_status(load: Load) -> Counter[tuple[str, int]]:
    return Counter((each.request.path, each.status) for each in load.exchanges)


def load_openly(address: str, requests: Iterator[Request], rate: float, seconds: float) -> Load:
    moments = poisson_arrivals(rate, seconds, seed=1)
    asked = list(islice(requests, len(moments)))
    return open_loop(address, asked, moments, seconds=seconds)


def test_the_open_loop_asks_at_its_moments_and_the_service_counts_the_same_requests(
    loaded_server, requests
):
    before = counted(loaded_server.url)
    moments = poisson_arrivals(60.0, 1.5, seed=1)
    asked = list(islice(requests, len(moments)))
    load = open_loop(loaded_server.url, asked, moments, warm_up=0.5, seconds=1.0)
    assert_counted(loaded_server.url, before + by_route_and_status(load))
    scheduled = np.array([each.scheduled for each in load.exchanges])
    assert scheduled - scheduled[0] == pytest.approx(moments - moments[0], abs=1e-6)
    for each in load.exchanges:
        assert each.scheduled <= each.begun <= each.sent < each.finished
        assert each.status == 200
    figures = Figures(load, offered=60.0)
    assert len(figures.measured) == sum(moments >= 0.5)
    assert figures.failed == figures.rejected_share == 0


def test_the_stages_that_the_service_reports_are_kept(loaded_server, searches):
    figures = Figures(load_openly(loaded_server.url, searches, 40.0, 1.0), offered=40.0)
    assert [*figures.stages] == [*STAGES, "total"]
    left_out = {name for name, mean in figures.stages.items() if not mean}
    assert left_out == {"filter", "boost", "sort", "rerank", "highlight"}
    assert sum(figures.stages[name] for name in STAGES) <= figures.stages["total"]
    assert figures.stages["total"] < figures.mean_latency


def test_the_closed_loop_keeps_its_clients_busy_and_the_service_counts_the_same_requests(
    loaded_server, requests
):
    before = counted(loaded_server.url)
    load = closed_loop(loaded_server.url, requests, clients=3, seconds=0.5)
    assert_counted(loaded_server.url, before + by_route_and_status(load))
    ended = sorted(each.finished for each in load.exchanges)
    begun = sorted(each.scheduled for each in load.exchanges)
    assert all(end <= begin for end, begin in zip(ended, begun[3:], strict=False))


@pytest.mark.check
def test_what_an_overloaded_service_rejects_is_counted_apart(small_index, searches):
    settings = {"threads": 1, "max_queued_queries": 1, "max_batch_queries": 1, "cache_bytes": 0}
    with running(small_index, **settings) as server:
        load = closed_loop(server.url, searches, clients=16, seconds=0.5)
        assert_counted(server.url, by_route_and_status(load))
    figures = Figures(load)
    assert figures.statuses[429] > 0
    assert figures.failed == 0
    assert figures.rejected_share == figures.statuses[429] / len(figures.measured)
    assert len(figures.latencies) == figures.statuses[200]


def stalls_of(server: "subprocess.Popen[str]") -> list[tuple[float, float]]:
    """When the server stood still, until it was ended now."""
    server.terminate()
    assert server.stdout is not None
    pairs = [line.split() for line in server.stdout]
    return [(float(began), float(ended)) for began, ended in pairs]


def test_a_stall_is_charged_to_every_request_that_should_have_begun_meanwhile(
    paced_server, searches
):
    server = paced_server(stall_ms=300, stall_every_ms=700)
    load = load_openly(address_of(server), searches, 200.0, 3.0)
    stalls = stalls_of(server)
    assert stalls
    charged = 0
    for began, ended in stalls:
        within = [each for each in load.exchanges if began < each.scheduled < ended]
        assert all(each.finished >= ended for each in within)
        charged += len(within)
    end = load.began + 3.0
    seconds = sum(max(0.0, min(ended, end) - max(began, load.began)) for began, ended in stalls)
    assert charged == pytest.approx(200.0 * seconds, rel=0.4)
    # Their latencies are spread over the stall, instead of one request that has it all.
    assert sum(each.finished - each.scheduled > 0.1 for each in load.exchanges) > charged / 2


def test_requests_for_which_there_is_no_connection_are_charged_their_wait(paced_server, searches):
    server = paced_server(work_ms=20)
    moments = poisson_arrivals(100.0, 1.0, seed=1)  # twice what it can do
    load = open_loop(address_of(server), [next(searches)], moments, seconds=1.0, connections=2)
    latencies = [each.finished - each.scheduled for each in load.exchanges]
    assert max(latencies) > 0.5
    assert max(each.sent - each.begun for each in load.exchanges) > 0.2
    assert Figures(load, offered=100.0).failed == 0


def test_connections_that_a_server_closes_while_idle_cost_no_request(paced_server, searches):
    server = paced_server(close_idle_ms=1100)
    load = load_openly(address_of(server), searches, 20.0, 3.0)
    assert {each.status for each in load.exchanges} == {200}


def test_requests_that_a_server_takes_along_when_it_ends_are_failures(paced_server, searches):
    server = paced_server(end_after=20)
    load = load_openly(address_of(server), searches, 100.0, 1.0)
    figures = Figures(load, offered=100.0)
    assert figures.statuses[200] <= 20
    assert (
        figures.failed == figures.statuses[NO_ANSWER] == len(load.exchanges) - figures.statuses[200]
    )


def test_a_closed_loop_whose_server_ends_is_over_in_its_time(paced_server, searches):
    server = paced_server(end_after=20)
    began = time.monotonic()
    load = closed_loop(address_of(server), searches, clients=4, seconds=0.3)
    assert time.monotonic() - began < ANSWER_TIMEOUT_SECONDS
    statuses = Figures(load).statuses
    assert statuses[200] > 0
    assert statuses[NO_ANSWER] > 0


def test_a_signal_during_a_callback_of_the_http_parser_ends_the_load(paced_server, searches):
    def then_a_signal() -> Iterator[Request]:
        yield from islice(searches, 20)
        raise Stopped(signal.SIGTERM)  # the next request begins in such a callback

    with pytest.raises(Stopped):
        closed_loop(address_of(paced_server()), then_a_signal(), clients=4, seconds=5)


def test_requests_without_an_answer_count_with_the_time_that_was_waited(paced_server, searches):
    server = paced_server(work_ms=60_000)
    load = open_loop(
        address_of(server), [next(searches)], poisson_arrivals(50.0, 0.5, seed=1),
        seconds=0.5, answer_timeout=0.5,
    )  # fmt: skip
    figures = Figures(load, offered=50.0)
    assert figures.failed == len(load.exchanges) == len(figures.latencies)
    assert figures.latencies[0] >= 450


@pytest.mark.check
def test_the_saturation_rate_is_what_a_server_can_do(paced_server, searches):
    address = address_of(paced_server(work_ms=10))  # 100 a second at most
    clients, steps = find_saturation(
        lambda clients: Figures(closed_loop(address, searches, clients=clients, seconds=0.5))
    )
    saturation = steps[clients].answered_rate
    assert 0 < saturation <= 102
    assert list(steps)[:2] == [1, 2]
    assert saturation == max(figures.answered_rate for figures in steps.values())


def test_an_address_where_nobody_listens_is_refused(searches):
    with pytest.raises(LoadTestError, match=r"^no service answers at http://127\.0\.0\.1:1: "):
        load_openly("http://127.0.0.1:1", searches, 100.0, 0.5)
    with pytest.raises(LoadTestError, match=r"^no service answers at http://127\.0\.0\.1:1: "):
        closed_loop("http://127.0.0.1:1", searches, clients=1, seconds=0.1)


def test_the_gaps_are_exponential_and_independent():
    moments = poisson_arrivals(500.0, 200.0, seed=1)
    assert 0 <= moments[0] < moments[-1] < 200.0
    gaps = np.diff(moments)
    assert (gaps > 0).all()
    assert np.mean(gaps) == pytest.approx(1 / 500, rel=0.02)
    assert np.std(gaps) == pytest.approx(1 / 500, rel=0.02)
    assert np.median(gaps) == pytest.approx(np.log(2) / 500, rel=0.02)
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 0.02
