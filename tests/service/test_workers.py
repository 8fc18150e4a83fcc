import asyncio
import threading
from collections.abc import Callable, Iterator
from time import perf_counter, sleep

import pytest
from starlette.requests import ClientDisconnect

from service.problems import DeadlineError, QueueFullError
from service.workers import Workers


@pytest.fixture
def workers() -> Iterator[Workers]:
    workers = Workers(4)
    yield workers
    workers.close()


@pytest.fixture
def worker() -> Workers:
    """As the service has it on one core; at most a hundred calls wait."""
    return Workers(1, max_queued=100)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0)


def test_work_runs_on_other_threads_and_its_wait_is_measured(workers: Workers) -> None:
    before = perf_counter()
    finished = asyncio.run(workers.run(lambda _: threading.current_thread(), None))
    assert finished.result is not threading.current_thread()
    assert 0 < finished.queue_seconds < finished.began - before < 10


def test_what_fails_on_a_thread_fails_where_it_was_asked_for(workers: Workers) -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(workers.run(lambda number: 1 / number, 0))
    assert asyncio.run(workers.run(abs, -1)).result == 1


def test_results_come_in_the_order_of_their_arguments(workers: Workers) -> None:
    finished = asyncio.run(workers.run_each(abs, range(-100, 0)))
    assert [each.result for each in finished] == list(range(100, 0, -1))
    assert asyncio.run(workers.run_each(abs, [])) == []


def test_a_batch_alone_takes_every_thread(workers: Workers) -> None:
    together = threading.Barrier(4, timeout=20)
    asyncio.run(workers.run_each(lambda _: together.wait(), range(4)))


def test_where_every_other_thread_is_busy_work_runs_on_the_event_loop() -> None:
    workers = Workers(2)
    begun, let_go = threading.Event(), threading.Event()

    def hold(_: None) -> None:
        begun.set()
        let_go.wait(20)

    async def ask() -> None:
        held = asyncio.create_task(workers.run(hold, None))
        await until(begun.is_set)
        for _ in range(3):
            finished = await workers.run(lambda _: threading.current_thread(), None)
            assert finished.result is threading.current_thread()
        let_go.set()
        await held

    asyncio.run(ask())
    workers.close()


def test_a_thread_takes_turns_until_nobody_waits(workers: Workers) -> None:
    threads: list[threading.Thread] = []

    def work(seconds: float) -> None:
        threads.append(threading.current_thread())
        sleep(seconds)

    asyncio.run(workers.run_each(work, [0.005] * 100))
    assert len(set(threads)) == 4
    assert all(threads.count(thread) > 1 for thread in set(threads))


def test_no_call_is_forgotten_however_often_threads_rest_and_are_summoned(
    workers: Workers,
) -> None:
    async def ask(seconds: float) -> None:
        for number in range(300):
            await workers.run(sleep, seconds * (number % 3))
            await asyncio.sleep(seconds * (number % 2))

    async def ask_together() -> None:
        async with asyncio.timeout(60):
            await asyncio.gather(*map(ask, [0, 0.0001, 0.0002, 0.0003, 0.0005, 0.001]))

    asyncio.run(ask_together())
    assert workers.queued == 0


def test_a_single_query_waits_for_one_of_a_batch_and_not_for_all(worker: Workers) -> None:
    order: list[object] = []

    async def ask() -> None:
        batch = asyncio.create_task(worker.run_each(order.append, range(64)))
        single = asyncio.create_task(worker.run(order.append, "single"))
        await asyncio.gather(batch, single)

    asyncio.run(ask())
    assert order == [0, "single", *range(1, 64)]


def test_two_batches_take_turns(worker: Workers) -> None:
    order: list[str] = []

    async def ask() -> None:
        await asyncio.gather(*(worker.run_each(order.append, [name] * 8) for name in "ab"))

    asyncio.run(ask())
    assert "".join(order) == "ab" * 8


def test_what_is_done_too_late_is_not_answered_and_the_rest_never_begun(worker: Workers) -> None:
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        sleep(0.03)

    async def ask() -> None:
        with pytest.raises(DeadlineError):
            await worker.run_each(work, range(50), deadline=perf_counter() + 0.02)
        assert worker.queued == 0

    asyncio.run(ask())
    assert begun == [0]


def test_what_waits_beyond_its_deadline_is_answered_then_and_never_begun(worker: Workers) -> None:
    begun: list[int] = []

    async def ask() -> None:
        others = asyncio.create_task(worker.run_each(sleep, [0.01] * 50))
        await until(lambda: worker.queued > 0)
        with pytest.raises(DeadlineError):
            await worker.run_each(begun.append, range(50), deadline=perf_counter())
        assert 0 < worker.queued < 50
        await others

    asyncio.run(ask())
    assert begun == []


def test_a_deadline_that_passes_during_the_work_ends_the_wait(workers: Workers) -> None:
    async def ask() -> None:
        let_go = threading.Event()
        with pytest.raises(DeadlineError):
            await workers.run(let_go.wait, 20, deadline=perf_counter() + 0.02)
        let_go.set()

    asyncio.run(ask())


@pytest.mark.parametrize("way", ["the client leaves", "the request is cancelled"])
def test_work_that_nobody_waits_for_any_more_is_never_begun(worker: Workers, way: str) -> None:
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        sleep(0.01)

    async def ask() -> None:
        left = asyncio.Event()

        async def receive() -> dict[str, object]:
            await left.wait()
            return {"type": "http.disconnect"}

        asked = asyncio.create_task(worker.run_each(work, range(100), receive=receive))
        await until(lambda: len(begun) > 1)
        if way == "the client leaves":
            left.set()
            with pytest.raises(ClientDisconnect):
                await asked
        else:
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
        assert worker.queued == 0
        assert 1 < len(begun) < 100
        done = list(begun)
        await worker.run(abs, 1)
        assert begun == done

    asyncio.run(ask())


def test_more_than_may_wait_is_refused_at_once(worker: Workers) -> None:
    async def ask() -> None:
        waiting = [asyncio.create_task(worker.run(abs, -1)) for _ in range(100)]
        refused = asyncio.create_task(worker.run(abs, -1))
        answers = await asyncio.gather(*waiting)
        assert [answer.result for answer in answers] == [1] * 100
        with pytest.raises(QueueFullError, match="100 queries are waiting and 1 more"):
            await refused
        with pytest.raises(QueueFullError, match="0 queries are waiting and 101 more"):
            await worker.run_each(abs, range(101))
        assert (await worker.run(abs, -1)).result == 1

    asyncio.run(ask())


def test_whoever_leaves_makes_room_for_another(worker: Workers) -> None:
    async def ask() -> None:
        waiting = asyncio.create_task(worker.run_each(sleep, [0.01] * 100))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert len(await worker.run_each(abs, range(100))) == 100

    asyncio.run(ask())


def test_after_a_failure_the_rest_of_a_batch_is_not_begun(worker: Workers) -> None:
    done = []

    def work(number: int) -> None:
        done.append(number)
        if number == 3:
            raise ValueError("three")

    async def ask() -> None:
        with pytest.raises(ValueError, match="three"):
            await worker.run_each(work, range(100))
        assert worker.queued == 0

    asyncio.run(ask())
    assert done == [0, 1, 2, 3]


@pytest.mark.parametrize("threads", [2, 4])
def test_a_failure_is_told_whatever_else_of_the_batch_ends_meanwhile(threads: int) -> None:
    workers = Workers(threads)

    def work(number: int) -> None:
        if number == 3:
            raise ValueError("three")
        sleep(0.0005)

    async def ask() -> None:
        for _ in range(50):
            with pytest.raises(ValueError, match="three"):
                await workers.run_each(work, range(12))

    asyncio.run(ask())
    workers.close()


def test_what_alone_is_done_too_late_is_not_answered(worker: Workers) -> None:
    async def ask() -> None:
        with pytest.raises(DeadlineError):
            await worker.run(sleep, 0.04, deadline=perf_counter() + 0.02)

    asyncio.run(ask())


def test_nobody_watches_for_a_client_that_has_its_answer(workers: Workers) -> None:
    watched = 0

    async def receive() -> dict[str, object]:
        nonlocal watched
        watched += 1
        return await asyncio.Future()

    async def ask() -> None:
        await workers.run(sleep, 0, receive=receive)
        await asyncio.sleep(0.1)
        assert watched == 0
        await workers.run(sleep, 0.1, receive=receive)
        assert watched == 1
        async with asyncio.timeout(20):
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0)

    asyncio.run(ask())


def test_every_thread_can_be_set_up(workers: Workers) -> None:
    threads = set()
    workers.run_on_every_thread(lambda: threads.add(threading.get_ident()))
    assert len(threads) == 4


def test_what_fails_on_one_of_the_threads_fails_the_setting_up(workers: Workers) -> None:
    with pytest.raises(ZeroDivisionError):
        workers.run_on_every_thread(lambda: 1 / 0)


def test_on_one_core_work_runs_where_everything_runs(worker: Workers) -> None:
    finished = asyncio.run(worker.run(lambda _: threading.current_thread(), None))
    assert finished.result is threading.current_thread()
    threads = []
    worker.run_on_every_thread(lambda: threads.append(threading.current_thread()))
    assert threads == [threading.current_thread()]
    worker.close()


def test_on_one_core_searching_gets_its_half_of_the_time_from_whatever_else_there_is(
    worker: Workers,
) -> None:
    """Such as thousands of requests that are refused: else one search a round would be all."""
    spent = dict.fromkeys(("searching", "else"), 0.0)

    def take(name: str, seconds: float) -> None:
        began = perf_counter()
        sleep(seconds)
        spent[name] += perf_counter() - began

    async def ask() -> None:
        searches = asyncio.create_task(
            worker.run_each(lambda _: take("searching", 0.001), range(100))
        )
        while not searches.done():
            await asyncio.sleep(0)
            take("else", 0.005)

    asyncio.run(ask())
    assert 0.4 < spent["searching"] / spent["else"] < 2.5


def test_however_long_it_waited_searching_gives_way_after_a_tenth_of_a_second(
    worker: Workers,
) -> None:
    async def ask() -> None:
        searches = asyncio.create_task(worker.run_each(sleep, [0.01] * 100))
        await asyncio.sleep(0)
        sleep(1)
        began = perf_counter()
        await asyncio.sleep(0)
        assert perf_counter() - began < 0.5
        await searches

    asyncio.run(ask())
