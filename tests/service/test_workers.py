import asyncio
import threading
from collections.abc import Iterator

import pytest

from service.workers import Workers


@pytest.fixture
def workers() -> Iterator[Workers]:
    workers = Workers(4)
    yield workers
    workers.close()


def test_work_runs_on_other_threads_and_its_wait_is_measured(workers: Workers) -> None:
    finished = asyncio.run(workers.run(threading.current_thread))
    assert finished.result is not threading.current_thread()
    assert 0 < finished.queue_seconds < 10


def test_what_fails_on_a_thread_fails_where_it_was_asked_for(workers: Workers) -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(workers.run(divmod, 1, 0))


def test_results_come_in_the_order_of_their_arguments(workers: Workers) -> None:
    finished = asyncio.run(workers.run_each(abs, range(-100, 0)))
    assert [each.result for each in finished] == list(range(100, 0, -1))
    assert asyncio.run(workers.run_each(abs, [])) == []


def test_a_batch_leaves_threads_to_others(workers: Workers) -> None:
    """Half of the threads wait in a batch; what comes later is done all the same."""
    begun, release = threading.Semaphore(0), threading.Event()

    def wait(_: int) -> bool:
        begun.release()
        return release.wait(timeout=20)

    async def ask() -> None:
        batch = asyncio.create_task(workers.run_each(wait, range(50)))
        for _ in range(2):
            await asyncio.to_thread(begun.acquire, timeout=20)
        assert (await workers.run(abs, -1)).result == 1
        assert not begun.acquire(blocking=False)
        release.set()
        assert all(finished.result for finished in await batch)

    asyncio.run(ask())


def test_after_a_failure_the_rest_of_a_batch_is_not_begun(workers: Workers) -> None:
    done = []

    def work(number: int) -> None:
        done.append(number)
        if number == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        asyncio.run(workers.run_each(work, range(1000)))
    assert len(done) < 50


def test_every_thread_can_be_set_up(workers: Workers) -> None:
    threads = set()
    workers.run_on_every_thread(lambda: threads.add(threading.get_ident()))
    assert len(threads) == 4
