"""What is known of a request while it is answered: its id and where its time went."""

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from time import perf_counter
from typing import NamedTuple

from starlette.types import Scope

from retrieval.searcher import StageTimes

SEARCHER_STAGES = tuple(stage.name for stage in fields(StageTimes))

STAGES = ("queue", *SEARCHER_STAGES)
"""The stages of a search, in their order; "queue" is the wait for a turn."""


class SearchTimes(NamedTuple):
    """One search: when its first stage began (`perf_counter`), and the seconds of each of `STAGES`.

    A stage that did not run has no time. `cached` says whether the embedding was in the cache, or
    None where it was not looked for.
    """

    started: float
    stage_seconds: tuple[float, ...]
    cached: bool | None = None


_TOTAL_TIMING = "total;dur=%.3f"
_SEARCH_TIMING = ", ".join([*(f"{stage};dur=%.3f" for stage in STAGES), _TOTAL_TIMING])

_SCOPE_KEY = "swiftlet.observation"
_SANE_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=@~-]{1,128}")


@dataclass(slots=True)
class Observation:
    """One request: its id, when it began, each search that it made, and what problem it met."""

    request_id: str
    started: float
    searches: list[SearchTimes] = field(default_factory=list)
    problem: str = ""

    @property
    def seconds(self) -> float:
        """Time since the request began."""
        return perf_counter() - self.started

    def server_timing(self) -> str:
        """The header that a browser draws: milliseconds of each stage over all searches."""
        if not self.searches:
            return _TOTAL_TIMING % (1000 * self.seconds)
        first, *others = [search.stage_seconds for search in self.searches]
        totals = map(sum, zip(first, *others, strict=True)) if others else first
        return _SEARCH_TIMING % (*(1000 * seconds for seconds in totals), 1000 * self.seconds)


def observe(scope: Scope) -> Observation:
    """Begin to observe the request of `scope`; the client's own id is kept if it is a sane one."""
    observation = Observation(_request_id(scope["headers"]), perf_counter())
    scope[_SCOPE_KEY] = observation
    return observation


def observation_of(scope: Scope) -> Observation:
    """The observation of the request of `scope`."""
    observation: Observation = scope[_SCOPE_KEY]
    return observation


def _request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    for name, value in headers:
        if name == b"x-request-id":
            given = value.decode("latin-1")
            if _SANE_REQUEST_ID.fullmatch(given):
                return given
    return secrets.token_hex(8)
