import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from time import monotonic, perf_counter, sleep
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from service.admission.executor import Completed, FairQueue, Line, SearchExecutor
from service.wire.problems import DeadlineError


@pytest.fixture
def executor() -> Iterator[SearchExecutor]:
    executor = SearchExecutor(4)
    yield executor
    executor.close()


@pytest.fixture
def alone() -> SearchExecutor:
    """The executor of a service with one core; at most a hundred calls wait."""
    return SearchExecutor(1, max_queued=100)


class Clock:
    """A time that passes only when a test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch) -> Clock:
    """The clock of the executor and its queue."""
    clock = Clock()
    for part in (SearchExecutor, FairQueue):
        monkeypatch.setattr(sys.modules[part.__module__], "perf_counter", clock)
    return clock


async def run(
    executor: SearchExecutor, function: Callable[[Any], Any], argument: object, **options: Any
) -> Completed[Any]:
    (completed,) = await executor.map(function, [argument], **options)
    return completed


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(100):
        while not condition():
            await asyncio.sleep(0)


def test_work_runs_on_other_threads_and_its_wait_is_measured(executor):
    before = perf_counter()
    finished = asyncio.run(run(executor, lambda _: threading.current_thread(), None))
    assert finished.result is not threading.current_thread()
    assert 0 < finished.queue_seconds < finished.began - before


def test_results_come_in_the_order_of_their_arguments(executor):
    finished = asyncio.run(executor.map(abs, range(-100, 0)))
    assert [each.result for each in finished] == list(range(100, 0, -1))
    assert asyncio.run(executor.map(abs, [])) == []


def test_a_batch_alone_takes_every_thread(executor):
    together = threading.Barrier(4, timeout=100)
    asyncio.run(executor.map(lambda _: together.wait(), range(4)))


def test_where_every_other_thread_is_busy_work_runs_on_the_event_loop():
    executor = SearchExecutor(2)
    begun, let_go = threading.Event(), threading.Event()

    def hold(_: None) -> None:
        begun.set()
        let_go.wait(100)

    async def ask() -> None:
        held = asyncio.create_task(run(executor, hold, None))
        await until(begun.is_set)
        for _ in range(3):
            finished = await run(executor, lambda _: threading.current_thread(), None)
            assert finished.result is threading.current_thread()
        let_go.set()
        await held

    asyncio.run(ask())
    executor.close()


def test_a_thread_runs_calls_until_the_queue_is_empty(executor):
    threads: list[threading.Thread] = []
    together = threading.Barrier(4, timeout=100)

    def work(_: int) -> None:
        threads.append(threading.current_thread())
        together.wait()

    asyncio.run(executor.map(work, range(12)))
    assert sorted(map(threads.count, set(threads))) == [3] * 4


def test_no_call_is_lost_when_threads_become_idle_and_start_again(executor):
    async def ask(seconds: float) -> None:
        for number in range(300):
            await run(executor, sleep, seconds * (number % 3))
            await asyncio.sleep(seconds * (number % 2))

    async def ask_together() -> None:
        async with asyncio.timeout(60):
            await asyncio.gather(*map(ask, [0, 0.0001, 0.0002, 0.0003, 0.0005, 0.001]))

    asyncio.run(ask_together())
    assert executor.queue.waiting == 0


def test_a_single_query_waits_for_one_of_a_batch_and_not_for_all(alone):
    order: list[object] = []

    async def ask() -> None:
        batch = asyncio.create_task(alone.map(order.append, range(64)))
        single = asyncio.create_task(run(alone, order.append, "single"))
        await asyncio.gather(batch, single)

    asyncio.run(ask())
    assert order == [0, "single", *range(1, 64)]


def test_a_late_result_is_not_answered_and_the_remaining_calls_are_dropped(alone, clock):
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        clock.advance(0.03)

    async def ask() -> None:
        with pytest.raises(DeadlineError):
            await alone.map(work, range(50), deadline=clock() + 0.02)
        assert alone.queue.waiting == 0

    asyncio.run(ask())
    assert begun == [0]


@pytest.mark.parametrize("way", ["the client leaves", "the request is cancelled"])
def test_work_of_a_client_that_has_left_is_never_begun(alone, way):
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        sleep(0.01)

    async def ask() -> None:
        left = asyncio.Event()

        async def receive() -> dict[str, object]:
            await left.wait()
            return {"type": "http.disconnect"}

        asked = asyncio.create_task(alone.map(work, range(100), receive=receive))
        await until(lambda: len(begun) > 1)
        if way == "the client leaves":
            left.set()
            with pytest.raises(ClientDisconnect):
                await asked
        else:
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
        assert alone.queue.waiting == 0
        assert 1 < len(begun) < 100
        done = list(begun)
        assert len(await alone.map(abs, range(100))) == 100  # its places are free
        assert begun == done

    asyncio.run(ask())


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_failure_is_raised_and_the_rest_of_its_batch_is_not_begun(threads):
    executor = SearchExecutor(threads)

    async def ask() -> None:
        for _ in range(50):
            done: list[int] = []

            def work(number: int, done: list[int] = done) -> None:
                done.append(number)
                if number == 3:
                    raise ValueError("three")
                sleep(0.01)

            with pytest.raises(ValueError, match="three"):
                await executor.map(work, range(100))
            assert executor.queue.waiting == 0
            assert len(done) < 100
            assert threads > 1 or done == [0, 1, 2, 3]

    asyncio.run(ask())
    executor.close()


def test_after_the_answer_the_check_for_a_disconnect_ends(executor, clock):
    watched, seen = 0, threading.Event()

    async def receive() -> dict[str, object]:
        nonlocal watched
        watched += 1
        seen.set()
        return await asyncio.Future()

    def work(_: None) -> None:
        while not seen.wait(0.01):
            clock.advance(0.1)

    async def ask() -> None:
        asyncio.get_running_loop().time = clock  # type: ignore[method-assign]
        await run(executor, abs, -1, receive=receive)
        clock.advance(0.1)
        for _ in range(3):
            await asyncio.sleep(0)
        assert watched == 0
        await run(executor, work, None, receive=receive)
        assert watched == 1
        asyncio.get_running_loop().time = monotonic  # type: ignore[method-assign]
        async with asyncio.timeout(100):
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0)

    asyncio.run(ask())


def test_every_thread_can_be_set_up(executor):
    threads = set()
    executor.run_on_every_thread(lambda: threads.add(threading.get_ident()))
    assert len(threads) == 4
    with pytest.raises(ZeroDivisionError):
        executor.run_on_every_thread(lambda: 1 / 0)


def test_on_one_core_work_runs_on_the_event_loop(alone):
    finished = asyncio.run(run(alone, lambda _: threading.current_thread(), None))
    assert finished.result is threading.current_thread()
    threads = []
    alone.run_on_every_thread(lambda: threads.append(threading.current_thread()))
    assert threads == [threading.current_thread()]
    alone.close()


def test_on_one_core_searching_gets_half_of_the_event_loops_time(alone, clock):
    """With other work, such as refusals, there must be more than one search per iteration."""
    spent = dict.fromkeys(("searching", "else"), 0.0)

    def take(name: str, seconds: float) -> None:
        clock.advance(seconds)
        spent[name] += seconds

    async def ask() -> None:
        searches = asyncio.create_task(alone.map(lambda _: take("searching", 0.001), range(100)))
        while not searches.done():
            await asyncio.sleep(0)
            take("else", 0.005)

    asyncio.run(ask())
    assert 0.8 < spent["searching"] / spent["else"] < 1.25


def test_on_one_core_a_request_is_read_before_the_next_share(alone, clock):
    """A request asks for its search some turns of the event loop after it has come."""
    begun: list[str] = []

    def search(name: str) -> None:
        begun.append(name)
        clock.advance(0.007)

    async def ask() -> None:
        busy = asyncio.create_task(alone.map(search, ["busy"] * 50))
        while not begun:
            await asyncio.sleep(0)
        earlier = len(begun)
        for _ in range(4):
            await asyncio.sleep(0)
        await alone.map(search, ["quiet"], line=Line(1))
        assert begun.index("quiet") - earlier <= 1
        await busy

    asyncio.run(ask())


def test_searching_on_the_event_loop_ends_after_a_fiftieth_of_a_second(alone, clock):
    async def ask() -> None:
        searches = asyncio.create_task(alone.map(clock.advance, [0.01] * 100))
        await asyncio.sleep(0)
        clock.advance(1)
        began = clock()
        await asyncio.sleep(0)
        assert clock() - began == pytest.approx(0.02)
        await searches

    asyncio.run(ask())


def test_a_call_that_is_expected_to_take_long_does_not_hold_up_the_event_loop(alone):
    """Until it ends, no other call begins: one core does not search twice at a time."""
    begun, let_go, order = threading.Event(), threading.Event(), []

    def hold(name: str) -> threading.Thread:
        begun.set()
        let_go.wait(100)
        order.append(name)
        return threading.current_thread()

    async def ask() -> None:
        long = asyncio.create_task(run(alone, hold, "long", expected_seconds=0.1))
        await until(begun.is_set)
        short = asyncio.create_task(run(alone, order.append, "short"))
        await asyncio.sleep(0.05)  # the event loop is free, and begins nothing
        assert not order
        let_go.set()
        assert (await long).result is not threading.current_thread()
        await short
        assert order == ["long", "short"]

    asyncio.run(ask())
    alone.close()


def test_the_deadline_of_a_long_call_is_kept(alone):
    let_go, ended = threading.Event(), threading.Event()

    def hold(_: None) -> None:
        let_go.wait(100)
        ended.set()

    with pytest.raises(DeadlineError):
        asyncio.run(run(alone, hold, None, expected_seconds=1, deadline=perf_counter() + 0.02))
    assert not ended.is_set()
    let_go.set()
    alone.close()
