"""The context of a request while it is answered: its id, its times and its problem."""

import re
from dataclasses import dataclass, field
from random import getrandbits
from time import perf_counter
from typing import NamedTuple

from starlette.types import Scope

from swiftlet.search.stages import STAGE_NAMES

STAGES = ("queue", *STAGE_NAMES)
"""The stages of a search in their order; "queue" is the wait before the first."""

_TOTAL_TIMING = "total;dur=%.3f"
_SEARCH_TIMING = ", ".join([*(f"{stage};dur=%.3f" for stage in STAGES), _TOTAL_TIMING])
_SANE_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=@~-]{1,128}")


class SearchTimes(NamedTuple):
    """One search: when its first stage began (`perf_counter`) and the seconds of each of `STAGES`.

    A stage that did not run has 0. `cached` is None if the embedding cache was not used.
    """

    began: float
    stage_seconds: tuple[float, ...]
    cached: bool | None = None


@dataclass(slots=True)
class RequestContext:
    """One request: its id, when it began, each search that it made, and its problem."""

    request_id: str
    began: float
    searches: list[SearchTimes] = field(default_factory=list)
    problem: str = ""

    @property
    def seconds(self) -> float:
        """Time since the request began."""
        return perf_counter() - self.began

    def server_timing(self) -> str:
        """The `Server-Timing` header: milliseconds of each stage, summed over all searches."""
        if not self.searches:
            return _TOTAL_TIMING % (1000 * self.seconds)
        totals = map(sum, zip(*(search.stage_seconds for search in self.searches), strict=True))
        return _SEARCH_TIMING % (*(1000 * seconds for seconds in totals), 1000 * self.seconds)


def begin_request(scope: Scope) -> RequestContext:
    """Make the context of a request, for `request.state.context`.

    The client's own request id is kept if it is well formed.
    """
    context = RequestContext("", perf_counter())
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _SANE_REQUEST_ID.fullmatch(value):
            context.request_id = value.decode()
    if not context.request_id:
        context.request_id = f"{getrandbits(64):016x}"
    scope["state"] = {**scope.get("state", {}), "context": context}
    return context
