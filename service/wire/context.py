"""The context of a request while it is answered: its id, its times and its problem."""

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from swiftlet.errors import shown
from swiftlet.search.stages import STAGE_NAMES

if TYPE_CHECKING:
    from service.wire.rights import KeptKey

OWN_INDEX = "."
"""The name, in files of keys, of the index at the routes without a name."""

STAGES = ("queue", *STAGE_NAMES)
"""The stages of a search in their order; "queue" is the wait before the first."""

_TOTAL_TIMING = "total;dur=%.3f"
_SEARCH_TIMING = ", ".join([*(f"{stage};dur=%.3f" for stage in STAGES), _TOTAL_TIMING])


class SearchTimes(NamedTuple):
    """One search: when its first stage began (`perf_counter`) and the seconds of each of `STAGES`.

    A stage that did not run has 0. `cached` is None if the embedding cache was not used.
    """

    began: float
    stage_seconds: tuple[float, ...]
    cached: bool | None = None

    @classmethod
    def of(cls, began: float, queue_seconds: float, **seconds: float) -> "SearchTimes":
        """The times of work with only some stages, which began after its wait in the queue."""
        seconds["queue"] = queue_seconds
        stages = tuple(seconds.get(stage, 0.0) for stage in STAGES)
        return cls(began - queue_seconds, stages)


@dataclass(slots=True)
class RequestContext:
    """One request: its id, when it began, each search that it made, and its problem.

    `prefix` is the path below which a proxy has the service, such as "/swiftlet". `key` is the one
    that it has from a file of keys.
    """

    request_id: str
    began: float
    searches: list[SearchTimes] = field(default_factory=list)
    problem: str = ""
    prefix: str = ""
    index: str = OWN_INDEX
    key: "KeptKey | None" = None

    @property
    def has_filter(self) -> bool:
        """Whether the key of the request hides documents."""
        return self.key is not None and self.key.key.filter is not None

    def without_fields(self, path: str) -> str:
        """The refusal of a field or kind of value that no document has; names no other field."""
        whose = "the request"
        if self.key is not None and self.key.key.names(path):
            whose = f"the filter of the key {shown(self.key.key.name)}"
        return (
            f"{whose} names {shown(path)}, but no document has this field, or it has no value of "
            "this kind"
        )

    def server_timing(self) -> str:
        """The `Server-Timing` header: milliseconds of each stage, summed over all searches."""
        total = 1000 * (perf_counter() - self.began)
        if not self.searches:
            return _TOTAL_TIMING % total
        totals = map(sum, zip(*(search.stage_seconds for search in self.searches), strict=True))
        return _SEARCH_TIMING % (*(1000 * seconds for seconds in totals), total)
