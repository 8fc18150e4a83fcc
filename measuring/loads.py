"""The two kinds of load: an open loop and a closed loop.

In an open loop requests begin at moments fixed beforehand, like those of independent users.
Latency counts from the scheduled moment, so it includes every delay. In a closed loop each client
sends its next request after its answer. This finds the saturation rate, but its latencies are
misleading, because a slow service gets fewer requests.
"""

import asyncio
import ctypes
import gc
import os
import select
import selectors
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from measuring.command_line import LoadTestError, held_back
from measuring.http_client import Exchange, Pool, Request

CONNECTIONS = 512
"""The most connections of an open loop; further requests wait, and their latency includes it."""

ANSWER_TIMEOUT_SECONDS = 30.0
_OPENED_BEFORE = 32
_LEAD_SECONDS = 0.05
_CHECK_SECONDS = 0.01
_MOST_BEGUN_AT_ONCE = 16
_PR_SET_TIMERSLACK = 29


@dataclass(frozen=True, slots=True)
class Load:
    """All requests of a load, including the warm-up.

    `seconds` from `began` on were measured. The whole load took `wall_seconds`, and `cpu_seconds`
    of processor time in the generator. `repeated` and `resets` are those of `Pool`.
    """

    exchanges: list[Exchange]
    began: float
    seconds: float
    cpu_seconds: float
    wall_seconds: float
    repeated: int = 0
    resets: int = 0


def poisson_arrivals(rate: float, seconds: float, *, seed: int = 5) -> NDArray[np.float64]:
    """Moments of a Poisson process of `rate` a second within `seconds`, ascending from 0, (n,)."""
    chance = np.random.default_rng(seed)
    # Six standard deviations more than expected, so that the last moment is beyond the end.
    enough = int(rate * seconds + 6 * np.sqrt(rate * seconds) + 10)
    moments = np.cumsum(chance.exponential(1 / rate, enough))
    return moments[moments < seconds]


def open_loop(
    address: str,
    requests: Sequence[Request],
    moments: Iterable[float],
    *,
    seconds: float,
    warm_up: float = 0.0,
    connections: int = CONNECTIONS,
    answer_timeout: float = ANSWER_TIMEOUT_SECONDS,
    go_on: Callable[[], bool] = lambda: True,
    start_at: float = 0.0,
) -> Load:
    """Begin the next one of `requests`, cyclically, at each of `moments`.

    `moments` ascend within `warm_up` + `seconds`; only the latter are measured. Requests
    without an answer `answer_timeout` seconds after the last one are given up.

    :param go_on: The load ends as soon as this function returns false.
    :param start_at: When to start on the monotonic clock; at once if that is past.
    :raises LoadTestError: When the connection is refused.
    """
    exchanges: list[Exchange] = []

    async def work() -> Load:
        loop = asyncio.get_running_loop()
        pool = Pool([address], connections)
        await pool.open(min(_OPENED_BEFORE, connections))
        start = max(start_at, loop.time() + _LEAD_SECONDS)
        measured = seconds
        for number, moment in enumerate(moments):
            if (delay := start + moment - loop.time()) > 0:
                await asyncio.sleep(delay)
            elif number % _MOST_BEGUN_AT_ONCE == 0:  # late, but answers must be read meanwhile
                await asyncio.sleep(0)
            if not go_on():
                measured = loop.time() - start - warm_up
                break
            exchanges.append(Exchange(requests[number % len(requests)], float(start + moment)))
            pool.begin(exchanges[-1])
        load = await _end(pool, start, exchanges, timeout=answer_timeout)
        return replace(load, began=start + warm_up, seconds=measured)

    return _run(address, work)


def closed_loop(
    addresses: str | Sequence[str],
    requests: Iterator[Request],
    *,
    clients: int,
    seconds: float = inf,
    go_on: Callable[[], bool] = lambda: True,
) -> Load:
    """Let each of `clients` send its next request after its answer.

    No request begins after `seconds`, when `requests` are exhausted or when `go_on()` is false. A
    client ends when its connection is refused. Requests under way are waited for.

    :param addresses: One service, or several over which the clients are spread evenly.
    :raises LoadTestError: When the first connections are refused.
    """
    exchanges: list[Exchange] = []
    addresses = [addresses] if isinstance(addresses, str) else addresses

    async def work() -> Load:
        loop = asyncio.get_running_loop()

        def goes_on() -> bool:
            return loop.time() < start + seconds and go_on()

        def on_end(exchange: Exchange | None) -> None:
            refused = exchange is not None and not exchange.was_sent
            request = next(requests, None) if goes_on() and not refused else None
            if request is not None:
                exchanges.append(Exchange(request, loop.time()))
                pool.begin(exchanges[-1])

        pool = Pool(addresses, clients, on_end)
        await pool.open(clients)
        start = loop.time()
        for _ in range(clients):
            on_end(None)
        load = await _end(pool, start, exchanges, go_on=goes_on)
        return replace(load, seconds=min(seconds, load.wall_seconds))

    return _run(addresses[0], work)


async def _end(
    pool: Pool,
    start: float,
    exchanges: list[Exchange],
    *,
    timeout: float = ANSWER_TIMEOUT_SECONDS,
    go_on: Callable[[], bool] = lambda: False,
) -> Load:
    """Wait until all requests have ended, at most `timeout` seconds from `not go_on()` on."""
    waited = 0.0
    while pool.under_way and waited < timeout:
        await asyncio.sleep(_CHECK_SECONDS)
        waited = 0.0 if go_on() else waited + _CHECK_SECONDS
    wall = asyncio.get_running_loop().time() - start
    pool.close()
    await asyncio.sleep(0)  # for the callbacks of the closed connections
    return Load(exchanges, start, wall, 0.0, wall, pool.repeated, pool.resets)


def _run(address: str, work: Callable[[], Coroutine[Any, Any, Load]]) -> Load:
    """The load of `work`, with the processor time that this thread used for it.

    The garbage collector, which would delay requests, is off meanwhile.
    """
    with held_back():  # an exception raised within a finaliser would be lost
        gc.collect()
    gc.disable()
    cpu_before = time.thread_time()
    try:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            load = runner.run(work())
        return replace(load, cpu_seconds=time.thread_time() - cpu_before)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise LoadTestError(f"no service answers at {address}: {reason}") from error
    finally:
        gc.enable()


class _PreciseSelector(selectors.EpollSelector):
    """Waits to the microsecond; epoll itself counts whole milliseconds."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)


def _new_loop() -> asyncio.AbstractEventLoop:
    # By default, Linux may delay timers by up to 50 µs.
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    return asyncio.SelectorEventLoop(_PreciseSelector())
