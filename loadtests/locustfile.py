"""Users of the service, for Locust.

    locust -f loadtests/locustfile.py --headless --host http://127.0.0.1:8000 \\
        --queries QUERIES --users 50 --request-rate 200 --run-time 30s

The stages that the service reports in Server-Timing are rows of the type "stage"; rejections (429,
503, 504) are rows of the type "rejected" and no failures. Run it from the project's root.
"""

import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any

import locust.stats
import numpy as np
from locust import FastHttpUser, events, task
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.exception import StopUser

from measuring.command_line import number, refuse
from measuring.http_client import OK, REJECTIONS, Request, stage_times
from measuring.processes import READY_PATH, get
from measuring.traffic import add_mix_options, mix_of, read_queries, traffic
from swiftlet.errors import RetrievalError


def three_digits(milliseconds: float) -> float:
    """The precision of response times; Locust's whole milliseconds are too coarse here."""
    return float(f"{milliseconds:.3g}")


locust.stats.bucket_response_time = three_digits  # type: ignore[assignment]


@events.init_command_line_parser.add_listener
def add_arguments(parser: LocustArgumentParser) -> None:
    """The options that this file adds to Locust's own."""
    group = parser.add_argument_group("search")
    group.add_argument("--queries", default="", help="file of queries, or BEIR folder")
    add_mix_options(group.add_argument)
    rate = "requests a second of all users together, at exponential intervals; 0: no pause"
    group.add_argument("--request-rate", type=number(0, 1e6), default=0.0, help=rate)
    group.add_argument("--requests", type=number(1, 1e9, int), help="end after as many requests")
    group.add_argument("--ready-path", default=READY_PATH, help="answered 200 by a ready service")


@events.init.add_listener
def prepare(environment: Environment, **_others: Any) -> None:
    """Read the queries and check that the service answers."""
    options = environment.parsed_options
    assert options is not None
    try:
        if not options.queries:
            refuse("no queries are named; --queries FILE is expected")
        queries = read_queries(Path(options.queries))
        endless = traffic(queries, mix_of(options), seed=options.seed)
        SearchUser.requests = islice(endless, options.requests)
        if environment.host:
            get(environment.host.rstrip("/") + options.ready_path)
        elif options.headless:
            refuse("no service is named; --host http://ADDRESS:PORT is expected")
    except RetrievalError as error:
        refuse(error)
    SearchUser.users = max(1, options.num_users or 1)
    SearchUser.request_rate = options.request_rate
    SearchUser.chance = np.random.default_rng(options.seed)


class SearchUser(FastHttpUser):
    """Sends one request after the other, at exponential intervals if there is a rate.

    A user waits for its answer. A request that was due meanwhile follows at once, but its time
    counts only from then on. That is coordinated omission; `python -m loadtests` has an open loop
    without it.
    """

    requests: Iterator[Request]
    users: int
    request_rate: float
    chance: np.random.Generator
    due: float = 0.0

    def wait_time(self) -> float:
        """Seconds until the next request is due."""
        if not self.request_rate:
            return 0.0
        now = time.monotonic()
        self.due = (self.due or now) + self.chance.exponential(self.users / self.request_rate)
        return max(0.0, self.due - now)

    def on_start(self) -> None:
        """Wait, so that not all users begin at once."""
        self.wait()

    @task
    def ask(self) -> None:
        """Send the next request."""
        request = next(self.requests, None)
        if request is None:
            # In a thread of its own: it waits for all users, and so for this one.
            Thread(target=self.environment.runner.quit).start()
            raise StopUser
        path, name = request.path, f"{request.path} {request.kind}"
        headers = {"Content-Type": "application/json"}
        with self.client.request(
            request.method, path, data=request.body.decode(), headers=headers, name=name,
            catch_response=True,
        ) as response:  # fmt: skip
            if response.status_code in REJECTIONS:
                response.request_meta["request_type"] = "rejected"
                response.request_meta["name"] = f"{path} {response.status_code}"
                response.success()
            elif response.status_code == OK:
                # Not as requests: these would count in the "Aggregated" row.
                timing = response.headers.get("server-timing", "")
                for stage, milliseconds in stage_times(timing).items():
                    self.environment.stats.get(stage, "stage").log(milliseconds, 0)


@events.quitting.add_listener
def fail_if_nothing_was_answered(environment: Environment, **_others: Any) -> None:
    """Fail the test if there was no answer at all."""
    if environment.stats.total.num_requests == 0:
        print("loadtests: no request was answered within the time", file=sys.stderr)
        environment.process_exit_code = 1
