import math
from time import perf_counter, sleep

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.admission.executor import FairQueue, Line, QueuedRequest
from service.wire.problems import QueueFullError


def test_a_request_that_does_not_fit_as_a_whole_is_refused_and_queues_nothing():
    queue, line = FairQueue(), Line(10)
    queue.put(QueuedRequest(7), line)
    with pytest.raises(
        QueueFullError, match=r"^7 queries are waiting and 4 more .* at most 10 may"
    ):
        queue.put(QueuedRequest(4), line)
    queue.put(QueuedRequest(3), line)
    assert queue.waiting == 10


def test_expired_requests_are_dropped_and_leave_room():
    queue, line = FairQueue(), Line(10)
    queue.put(QueuedRequest(9, perf_counter()), line)
    other = QueuedRequest(1)
    queue.put(other, line)
    assert queue.next().request is other
    assert queue.next() is None
    assert queue.waiting == 0


def test_cheap_calls_overtake_expensive_ones_that_came_shortly_before():
    queue, line = FairQueue(), Line(100)
    expensive = [QueuedRequest(1, expected_seconds=60) for _ in range(8)]
    for request in expensive:
        queue.put(request, line)
    assert queue.next().request is expensive[0]
    cheap = QueuedRequest(1)
    queue.put(cheap, line)
    assert [queue.next().request for _ in range(2)] == [cheap, expensive[1]]


def test_an_expensive_call_waits_no_longer_than_it_takes_itself():
    queue, line = FairQueue(), Line(100)
    expensive = QueuedRequest(1, expected_seconds=0.01)
    queue.put(expensive, line)
    sleep(0.02)
    queue.put(QueuedRequest(1), line)
    assert queue.next().request is expensive


@given(st.lists(st.one_of(st.integers(1, 5), st.sampled_from(["next", "remove"])), max_size=60))
def test_requests_take_turns_while_others_come_and_go(steps):
    """Between two calls of a request, each other request that waited all the time has one call."""
    queue, line = FairQueue(), Line(1000)
    inside: list[QueuedRequest] = []
    since_last: dict[int, set[int]] = {}
    for step in steps:
        if isinstance(step, int):
            inside.append(QueuedRequest(step, math.inf))
            queue.put(inside[-1], line)
        elif step == "remove" and inside:
            queue.remove(inside.pop(len(inside) // 2), line)
        elif step == "next" and (call := queue.next()):
            request = call.request
            waited = since_last.pop(id(request), None)
            assert waited is None or not waited
            for others in since_last.values():
                others.discard(id(request))
            assert call.number == request.begun - 1
            if request.begun < request.calls:
                since_last[id(request)] = {id(other) for other in inside if other is not request}
            else:
                inside.remove(request)
        for others in since_last.values():
            others &= {id(request) for request in inside}
        assert queue.waiting == sum(request.calls - request.begun for request in inside)


def test_a_full_line_delays_another_one_by_one_call():
    queue, full, other = FairQueue(), Line(100), Line(100)
    busy, single = QueuedRequest(90), QueuedRequest(1)
    queue.put(busy, full)
    for _ in range(50):
        assert queue.next().request is busy
    queue.put(single, other)
    assert single in [queue.next().request for _ in range(2)]
    with pytest.raises(QueueFullError):
        queue.put(QueuedRequest(100), full)
    queue.put(QueuedRequest(100), other)
    assert queue.waiting == full.waiting + other.waiting == 139


def test_lines_take_turns_by_the_seconds_of_their_calls():
    queue, slow, fast = FairQueue(), Line(100), Line(100)
    queue.put(expensive := QueuedRequest(50, expected_seconds=0.01), slow)
    queue.put(QueuedRequest(50, expected_seconds=0.002), fast)
    found = [queue.next().request is expensive for _ in range(36)]
    assert found.count(True) == 6


def test_a_line_that_was_idle_has_saved_up_no_turns():
    queue, busy, idle = FairQueue(), Line(1000), Line(1000)
    queue.put(QueuedRequest(1), idle)
    assert queue.next()
    queue.put(first := QueuedRequest(500), busy)
    for _ in range(400):
        queue.next()
    queue.put(QueuedRequest(50), idle)
    found = [queue.next().request is first for _ in range(40)]
    assert 18 <= found.count(True) <= 22
