import math
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.line import Line, Place
from service.problems import QueueFullError


def test_a_batch_holds_up_a_single_query_by_one_turn() -> None:
    line = Line(100)
    batch, single = Place(64, math.inf), Place(1, math.inf)
    line.join(batch)
    assert line.next().place is batch
    line.join(single)
    assert [line.next().place for _ in range(3)] == [batch, single, batch]


def test_what_does_not_fit_as_a_whole_is_refused_and_takes_no_room() -> None:
    line = Line(10)
    line.join(Place(7, math.inf))
    with pytest.raises(
        QueueFullError, match=r"^7 queries are waiting and 4 more .* at most 10 may"
    ):
        line.join(Place(4, math.inf))
    line.join(Place(3, math.inf))
    assert line.waiting == 10


def test_whose_deadline_has_passed_gets_no_turn_and_leaves_room() -> None:
    line = Line(10)
    line.join(Place(9, perf_counter()))
    late = Place(1, math.inf)
    line.join(late)
    assert line.next().place is late
    assert line.next() is None
    assert line.waiting == 0


@given(st.lists(st.one_of(st.integers(1, 5), st.sampled_from(["next", "leave"])), max_size=60))
def test_turns_go_round_whatever_comes_and_goes(steps: list[int | str]) -> None:
    """Between two turns of one request, each request that waited all the time had exactly one."""
    line = Line(1000)
    inside: list[Place] = []
    since_last: dict[int, set[int]] = {}
    for step in steps:
        if isinstance(step, int):
            inside.append(Place(step, math.inf))
            line.join(inside[-1])
        elif step == "leave" and inside:
            line.leave(inside.pop(len(inside) // 2))
        elif step == "next" and (turn := line.next()):
            place = turn.place
            waited = since_last.pop(id(place), None)
            assert waited is None or not waited
            for others in since_last.values():
                others.discard(id(place))
            assert turn.number == place.begun - 1
            if place.begun < place.turns:
                since_last[id(place)] = {id(other) for other in inside if other is not place}
            else:
                inside.remove(place)
        for others in since_last.values():
            others &= {id(place) for place in inside}
        assert line.waiting == sum(place.turns - place.begun for place in inside)
