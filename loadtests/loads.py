"""The two ways of asking: at moments that were fixed before, or again after each answer.

With an open loop the requests come at their moments whatever the service does, as they do from
users who know nothing of each other; latency counts from the scheduled moment, so that whatever
delays a start is charged to the service. A closed loop asks less of a service that is slow: good
for finding out how much it can do, and for nothing else.
"""

import asyncio
import os
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

from loadtests.arrivals import Seconds
from loadtests.command_line import LoadTestError
from loadtests.connection import Exchange
from loadtests.event_loop import run_on_time
from loadtests.pool import Pool
from loadtests.traffic import Request

CONNECTIONS = 512
"""The most connections of an open loop; what comes on top waits for one, which is charged too."""

ANSWER_TIMEOUT_SECONDS = 30.0

_Work = Coroutine[Any, Any, tuple[float, float, int]]
"""Ends with when it began, how long it lasted, and how many requests were repeated."""

_OPENED_BEFORE = 32
_LEAD_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Load:
    """What was asked and answered.

    `seconds` from `began` on were measured, after a warm-up whose exchanges are there too; the
    generator took `cpu_seconds` of the `wall_seconds` that all of it lasted. `repeated` requests
    were sent again, since the service had closed an idle connection.
    """

    exchanges: list[Exchange]
    began: float
    seconds: float
    cpu_seconds: float
    wall_seconds: float
    repeated: int


def open_loop(
    address: str,
    requests: Iterator[Request],
    moments: Seconds,
    *,
    warm_up: float,
    seconds: float,
    connections: int = CONNECTIONS,
    answer_timeout: float = ANSWER_TIMEOUT_SECONDS,
) -> Load:
    """Begin a request at each of `moments`, ascending within `warm_up` + `seconds`.

    What has no answer `answer_timeout` seconds after the last one is given up.

    :raises LoadTestError: When nobody listens at `address`.
    """
    exchanges = [Exchange(next(requests), float(moment)) for moment in moments]
    work = _open_loop(address, exchanges, connections, answer_timeout)
    (start, wall, repeated), cpu = _run(address, work)
    return Load(exchanges, start + warm_up, seconds, cpu, wall, repeated)


def closed_loop(address: str, requests: Iterator[Request], *, clients: int, seconds: float) -> Load:
    """Keep `clients` requests under way for `seconds`; those that are then, are waited for.

    :raises LoadTestError: When nobody listens at `address`.
    """
    exchanges: list[Exchange] = []
    work = _closed_loop(address, requests, exchanges, clients, seconds)
    (start, wall, repeated), cpu = _run(address, work)
    return Load(exchanges, start, seconds, cpu, wall, repeated)


def _run(address: str, work: _Work) -> tuple[tuple[float, float, int], float]:
    try:
        return run_on_time(work)
    except OSError as error:
        raise LoadTestError(f"nobody answers at {address}: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


async def _open_loop(
    address: str, exchanges: list[Exchange], connections: int, answer_timeout: float
) -> tuple[float, float, int]:
    loop = asyncio.get_running_loop()
    ended, all_ended = 0, loop.create_future()

    def on_end(_exchange: Exchange) -> None:
        nonlocal ended
        ended += 1
        if ended == len(exchanges):
            all_ended.set_result(None)

    pool = Pool(address, connections, on_end)
    await pool.open(min(_OPENED_BEFORE, connections, len(exchanges)))
    start = loop.time() + _LEAD_SECONDS
    for exchange in exchanges:
        exchange.scheduled += start
    following = iter(exchanges)

    def begin_due(exchange: Exchange | None) -> None:
        while exchange is not None and exchange.scheduled <= loop.time():
            pool.begin(exchange)
            exchange = next(following, None)
        if exchange is not None:
            loop.call_at(exchange.scheduled, begin_due, exchange)

    begin_due(next(following, None))
    if exchanges:
        last = exchanges[-1].scheduled
        await asyncio.wait([all_ended], timeout=last - loop.time() + answer_timeout)
    wall = loop.time() - start
    pool.close()
    await asyncio.sleep(0)  # connections hear of their end
    return start, wall, pool.repeated


async def _closed_loop(
    address: str,
    requests: Iterator[Request],
    exchanges: list[Exchange],
    clients: int,
    seconds: float,
) -> tuple[float, float, int]:
    loop = asyncio.get_running_loop()
    under_way, all_ended = clients, loop.create_future()

    def on_end(_exchange: Exchange) -> None:
        nonlocal under_way
        if loop.time() < start + seconds:
            begin()
        else:
            under_way -= 1
            if not under_way:
                all_ended.set_result(None)

    def begin() -> None:
        exchange = Exchange(next(requests), loop.time())
        exchanges.append(exchange)
        pool.begin(exchange)

    pool = Pool(address, clients, on_end)
    await pool.open(clients)
    start = loop.time()
    for _ in range(clients):
        begin()
    await asyncio.wait([all_ended], timeout=seconds + ANSWER_TIMEOUT_SECONDS)
    wall = loop.time() - start
    pool.close()
    await asyncio.sleep(0)
    return start, wall, pool.repeated
