"""The metrics that Prometheus scrapes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.metrics_core import Metric

from service.live.peers import Peers
from service.live.state import Service
from service.wire.context import STAGES, RequestContext
from service.wire.problems import PROBLEMS

UNKNOWN_ROUTE = "unknown"
"""The label of all paths without a route, so that clients cannot create new series."""

CLIENT_LEFT = 499
"""The status of a request if its client left before there was an answer."""

_SMALLEST_SECONDS = 0.0001
_LARGEST_SECONDS = 30.0
_RATIO = 1.5


def latency_buckets() -> list[float]:
    """Upper bounds in seconds, from 0.1 ms up in the ratio 1.5, rounded to two digits."""
    bounds = [_SMALLEST_SECONDS]
    while bounds[-1] < _LARGEST_SECONDS:
        bounds.append(_SMALLEST_SECONDS * _RATIO ** len(bounds))
    return [float(f"{bound:.2g}") for bound in bounds]


_OF_EACH = {
    "swiftlet_requests_in_flight", "swiftlet_queue_depth", "process_virtual_memory_bytes",
    "process_resident_memory_bytes", "process_open_fds",
}  # fmt: skip
"""Gauges of several processes that are added, as counts are; of all other ones, the most counts."""

_BEGINNINGS = ("process_start_time_seconds", "_created")


@dataclass(frozen=True, slots=True)
class _Together:
    """The series of several processes as those of one."""

    found: Sequence[Sequence[Metric]]

    def collect(self) -> Iterable[Metric]:
        """Each family once."""
        for same in zip(*self.found, strict=True):
            together = Metric(same[0].name, same[0].documentation, same[0].type)
            values: dict[tuple[str, tuple[tuple[str, str], ...]], list[float]] = {}
            for sample in (each for family in same for each in family.samples):
                values.setdefault((sample.name, (*sample.labels.items(),)), []).append(sample.value)
            adds = together.type in {"counter", "histogram"} or together.name in _OF_EACH
            for (name, labels), each in values.items():
                combine = min if name.endswith(_BEGINNINGS) else sum if adds else max
                together.add_sample(name, dict(labels), combine(each))
            yield together


class Metrics:
    """The series of one service in one registry; all of them exist from the first scrape on."""

    def __init__(self, registry: CollectorRegistry, peers: Peers | None = None) -> None:
        self.registry, self._peers = registry, peers or Peers()
        ProcessCollector(registry=registry)
        self._requests = Counter(
            "swiftlet_requests",
            "Requests answered; status 499 means that the client left before its answer.",
            ["route", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "swiftlet_request_seconds",
            "Time from a request's headers to the end of its answer.",
            ["route"],
            buckets=latency_buckets(),
            registry=registry,
        )
        stage_seconds = Histogram(
            "swiftlet_stage_seconds",
            "Time that each stage of a search took, where it ran.",
            ["stage"],
            buckets=latency_buckets(),
            registry=registry,
        )
        self.in_flight = Gauge(
            "swiftlet_requests_in_flight",
            "Requests being answered, this one included.",
            registry=registry,
        )
        self._queue_depth = Gauge(
            "swiftlet_queue_depth", "Queries that wait in the queue.", registry=registry
        )
        self._rejected = Counter(
            "swiftlet_rejected",
            "Requests answered with an error, by its name.",
            ["reason"],
            registry=registry,
        )
        for kind in PROBLEMS.values():
            self._rejected.labels(kind.name)
        lookups = Counter(
            "swiftlet_cache_lookups",
            "Queries looked up in the cache of embeddings.",
            ["result"],
            registry=registry,
        )
        self._lookups = {True: lookups.labels("hit"), False: lookups.labels("miss")}
        self._index = Gauge(
            "swiftlet_index_info",
            "1 for the index in use.",
            ["fingerprint", "factory", "num_documents", "num_passages", "embedding_space"],
            registry=registry,
        )
        self._encoder = Gauge(
            "swiftlet_encoder_info",
            "1 for the query encoder in use.",
            ["fingerprint", "name", "precision", "embedding_space"],
            registry=registry,
        )
        self._answered: dict[tuple[str, int], Counter] = {}
        self._seconds_of_route: dict[str, Histogram] = {}
        self._seconds_of_stages = [stage_seconds.labels(stage) for stage in STAGES]
        self.expect(UNKNOWN_ROUTE, [404])

    def expect(self, route: str, statuses: Iterable[int]) -> None:
        """Make the series of a route, one for each of `statuses` that its answers may have."""
        self._seconds_of_route[route] = self._seconds.labels(route)
        for status in statuses:
            self._answered[route, status] = self._requests.labels(route, str(status))

    def of_all(self, service: Service) -> _Together:
        """The series of all processes of the service together."""
        return _Together([self.of_this(service), *self._peers.ask_others("metrics")])

    def of_this(self, service: Service) -> list[Metric]:
        """The present series of this process."""
        self.update(service)
        return [*self.registry.collect()]

    def update(self, service: Service) -> None:
        """Bring the gauges up to date: the queue, and the index and encoder in use."""
        self._queue_depth.set(service.executor.queue.waiting)
        loaded = service.state.loaded
        index, encoder = loaded.searcher.index_manifest, loaded.searcher.encoder_manifest
        self._index.clear()
        self._index.labels(
            loaded.generation,
            index.details.get("factory", ""),
            loaded.searcher.num_documents,
            loaded.searcher.num_passages,
            index.embedding_space,
        ).set(1)
        self._encoder.clear()
        self._encoder.labels(
            encoder.fingerprint,
            encoder.details.get("name", ""),
            loaded.precision,
            encoder.embedding_space,
        ).set(1)

    def record(self, route: str, status: int, seconds: float, context: RequestContext) -> None:
        """Count a finished request, the searches that it made, and its problem."""
        if (route, status) not in self._answered:
            self.expect(route, [status])
        self._answered[route, status].inc()
        self._seconds_of_route[route].observe(seconds)
        if context.problem:
            self._rejected.labels(context.problem).inc()
        for search in context.searches:
            if search.cached is not None:
                self._lookups[search.cached].inc()
            for histogram, stage in zip(self._seconds_of_stages, search.stage_seconds, strict=True):
                if stage:
                    histogram.observe(stage)
