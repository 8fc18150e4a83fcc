"""Clients that search while a service stops."""

import re
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx


def search_through_a_stop(
    connect: Callable[[], httpx.Client],
    stop: Callable[[], object],
    refused: type[httpx.TransportError],
) -> Counter[int]:
    """The statuses that eight clients received, each until `refused`; `stop` comes after 100."""
    under_way = threading.Semaphore(0)

    def search() -> Counter[int]:
        statuses: Counter[int] = Counter()
        with connect() as client:
            while True:
                try:
                    answer = client.post("/search", json={"query": "bread", "top_k": 3})
                except refused:
                    return statuses
                assert answer.status_code == 503 or len(answer.json()["hits"]) == 3
                statuses[answer.status_code] += 1
                under_way.release()

    with ThreadPoolExecutor() as pool:
        searching = [pool.submit(search) for _ in range(8)]
        for _ in range(100):
            assert under_way.acquire(timeout=100)
        stop()
        return sum((each.result() for each in searching), Counter[int]())


def logged_statuses(log: str) -> Counter[int]:
    """The statuses of searches in an access log."""
    return Counter(int(status) for status in re.findall(r"POST /search (\d+) ", log))
