import asyncio
import threading
from collections.abc import Callable, Iterator
from time import perf_counter, sleep

import pytest
from starlette.requests import ClientDisconnect

from service.problems import DeadlineError, QueueFullError
from service.workers import Workers, make_workers


@pytest.fixture
def workers() -> Iterator[Workers]:
    workers = Workers(4)
    yield workers
    workers.close()


@pytest.fixture
def worker() -> Iterator[Workers]:
    """One thread, and at most a hundred calls that wait for it."""
    worker = Workers(1, max_queued=100)
    yield worker
    worker.close()


class Held:
    """Keeps the only thread busy until it is let go."""

    def __init__(self, worker: Workers) -> None:
        self._worker = worker
        self._begun, self._release = threading.Event(), threading.Event()

    async def __aenter__(self) -> Callable[[], None]:
        self._task = asyncio.create_task(self._worker.run(self._wait, None))
        await asyncio.to_thread(self._begun.wait, 20)
        return self._release.set

    async def __aexit__(self, *_: object) -> None:
        self._release.set()
        await self._task

    def _wait(self, _: None) -> None:
        self._begun.set()
        self._release.wait(20)


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


def test_a_single_query_waits_for_one_of_a_batch_and_not_for_all(worker: Workers) -> None:
    order: list[object] = []

    async def ask() -> None:
        async with Held(worker) as release:
            batch = asyncio.create_task(worker.run_each(order.append, range(64)))
            await until(lambda: worker.queued == 64)
            single = asyncio.create_task(worker.run(order.append, "single"))
            await until(lambda: worker.queued == 65)
            release()
            await single
            await batch

    asyncio.run(ask())
    assert order == [0, "single", *range(1, 64)]


def test_two_batches_take_turns(worker: Workers) -> None:
    order: list[str] = []

    async def ask() -> None:
        async with Held(worker) as release:
            batches = [
                asyncio.create_task(worker.run_each(order.append, [name] * 8)) for name in "ab"
            ]
            await until(lambda: worker.queued == 16)
            release()
            await asyncio.gather(*batches)

    asyncio.run(ask())
    assert "".join(order) == "ab" * 8


def test_what_waits_beyond_its_deadline_is_answered_then_and_never_begun(worker: Workers) -> None:
    begun: list[int] = []

    async def ask() -> None:
        async with Held(worker) as release:
            with pytest.raises(DeadlineError):
                await worker.run_each(begun.append, range(50), deadline=perf_counter() + 0.02)
            assert worker.queued == 0
            release()
        await worker.run(abs, 1)

    asyncio.run(ask())
    assert begun == []


def test_a_deadline_that_passes_during_the_work_ends_the_wait(worker: Workers) -> None:
    async def ask() -> None:
        let_go = threading.Event()
        with pytest.raises(DeadlineError):
            await worker.run(let_go.wait, 20, deadline=perf_counter() + 0.02)
        let_go.set()

    asyncio.run(ask())


@pytest.mark.parametrize("way", ["the client leaves", "the request is cancelled"])
def test_work_that_nobody_waits_for_any_more_is_never_begun(worker: Workers, way: str) -> None:
    begun: list[int] = []

    async def ask() -> None:
        left = asyncio.Event()

        async def receive() -> dict[str, object]:
            await left.wait()
            return {"type": "http.disconnect"}

        async with Held(worker) as release:
            asked = asyncio.create_task(worker.run_each(begun.append, range(50), receive=receive))
            await until(lambda: worker.queued == 50)
            if way == "the client leaves":
                left.set()
                with pytest.raises(ClientDisconnect):
                    await asked
            else:
                asked.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asked
            assert worker.queued == 0
            release()
        await worker.run(abs, 1)

    asyncio.run(ask())
    assert begun == []


def test_more_than_may_wait_is_refused_at_once(worker: Workers) -> None:
    async def ask() -> None:
        async with Held(worker):
            waiting = [asyncio.create_task(worker.run(abs, -1)) for _ in range(100)]
            await until(lambda: worker.queued == 100)
            with pytest.raises(QueueFullError, match="100 queries are waiting and 1 more"):
                await worker.run(abs, -1)
            waiting[0].cancel()
            await until(lambda: worker.queued == 99)
            waiting.append(asyncio.create_task(worker.run(abs, -1)))
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(answer).__name__ for answer in answers].count("Finished") == 100

    asyncio.run(ask())


def test_after_a_failure_the_rest_of_a_batch_is_not_begun(worker: Workers) -> None:
    done = []

    def work(number: int) -> None:
        done.append(number)
        if number == 3:
            raise ValueError("three")

    async def ask() -> None:
        async with Held(worker) as release:
            asked = asyncio.create_task(worker.run_each(work, range(100)))
            await until(lambda: worker.queued == 100)
            release()
            with pytest.raises(ValueError, match="three"):
                await asked
        assert worker.queued == 0

    asyncio.run(ask())
    assert done == [0, 1, 2, 3]


def test_every_thread_can_be_set_up(workers: Workers) -> None:
    threads = set()
    workers.run_on_every_thread(lambda: threads.add(threading.get_ident()))
    assert len(threads) == 4


def test_what_fails_on_one_of_the_threads_fails_the_setting_up(workers: Workers) -> None:
    with pytest.raises(ZeroDivisionError):
        workers.run_on_every_thread(lambda: 1 / 0)


@pytest.fixture
def loop_worker() -> Workers:
    """As the service has it on one core; at most a hundred calls wait."""
    return make_workers(1, max_queued=100)


def test_on_one_core_work_runs_where_everything_runs(loop_worker: Workers) -> None:
    finished = asyncio.run(loop_worker.run(lambda _: threading.current_thread(), None))
    assert finished.result is threading.current_thread()
    threads = []
    loop_worker.run_on_every_thread(lambda: threads.append(threading.current_thread()))
    assert threads == [threading.current_thread()]
    assert loop_worker.threads == 1
    loop_worker.close()


def test_on_one_core_too_a_batch_gives_way_to_a_single_query(loop_worker: Workers) -> None:
    order: list[object] = []

    async def ask() -> None:
        batch = asyncio.create_task(loop_worker.run_each(order.append, range(64)))
        single = asyncio.create_task(loop_worker.run(order.append, "single"))
        await asyncio.gather(batch, single)

    asyncio.run(ask())
    assert order == [0, "single", *range(1, 64)]


def test_on_one_core_what_is_done_too_late_is_not_answered_and_the_rest_never_begun(
    loop_worker: Workers,
) -> None:
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        sleep(0.03)

    async def ask() -> None:
        with pytest.raises(DeadlineError):
            await loop_worker.run_each(work, range(50), deadline=perf_counter() + 0.02)
        assert loop_worker.queued == 0

    asyncio.run(ask())
    assert begun == [0]


def test_on_one_core_what_fails_and_what_is_too_much_is_told(loop_worker: Workers) -> None:
    async def ask() -> None:
        with pytest.raises(ZeroDivisionError):
            await loop_worker.run(lambda number: 1 / number, 0)
        with pytest.raises(QueueFullError, match="0 queries are waiting and 101 more"):
            await loop_worker.run_each(abs, range(101))
        assert (await loop_worker.run(abs, -1)).result == 1

    asyncio.run(ask())


def test_on_one_core_searching_gets_its_half_of_the_time_from_whatever_else_there_is(
    loop_worker: Workers,
) -> None:
    """Such as thousands of requests that are refused: else one search a round would be all."""
    spent = dict.fromkeys(("searching", "else"), 0.0)

    def take(name: str, seconds: float) -> None:
        began = perf_counter()
        sleep(seconds)
        spent[name] += perf_counter() - began

    async def ask() -> None:
        searches = asyncio.create_task(
            loop_worker.run_each(lambda _: take("searching", 0.001), range(100))
        )
        while not searches.done():
            await asyncio.sleep(0)
            take("else", 0.005)

    asyncio.run(ask())
    assert 0.4 < spent["searching"] / spent["else"] < 2.5
