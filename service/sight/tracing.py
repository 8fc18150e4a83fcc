"""OpenTelemetry traces: a span for each request, and within it a span for each stage.

Needs the extra `tracing`. Spans are made when the request has ended, from the times that were
measured anyway, so tracing does not slow down the search.
"""

from importlib.metadata import version
from time import perf_counter_ns, time_ns

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
from starlette.types import Scope

from service.wire.context import STAGES, RequestContext

_NANOSECONDS = 1_000_000_000
_SERVER_ERROR = 500


def otlp_spans() -> SpanProcessor:
    """Exports spans to the address in the `OTEL_EXPORTER_OTLP_…` variables."""
    return BatchSpanProcessor(OTLPSpanExporter())


class Tracing:
    """Makes spans of requests that have ended."""

    def __init__(self, processor: SpanProcessor) -> None:
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": "swiftlet"}), shutdown_on_exit=False
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("swiftlet", version("swiftlet-retrieval"))
        self._epoch_nanoseconds = time_ns() - perf_counter_ns()

    def record(
        self,
        scope: Scope,
        method: str,
        route: str,
        status: int,
        seconds: float,
        context: RequestContext,
    ) -> None:
        """Make the spans of a request that has just ended; no span has the query."""
        carrier = {
            name.decode(): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in (b"traceparent", b"tracestate")
        }
        span = self._tracer.start_span(
            f"{method} {route}",
            context=extract(carrier),
            kind=SpanKind.SERVER,
            start_time=self._at(context.began),
            attributes={
                "http.request.method": method,
                "http.route": route,
                "http.response.status_code": status,
                "swiftlet.request_id": context.request_id,
                "swiftlet.problem": context.problem,
            },
        )
        if status >= _SERVER_ERROR:
            span.set_status(Status(StatusCode.ERROR))
        inside = set_span_in_context(span)
        for search in context.searches:
            began = search.began
            for stage, stage_seconds in zip(STAGES, search.stage_seconds, strict=True):
                if stage_seconds:
                    child = self._tracer.start_span(stage, inside, start_time=self._at(began))
                    began += stage_seconds
                    child.end(self._at(began))
        span.end(self._at(context.began + seconds))

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.shutdown()

    def _at(self, seconds: float) -> int:
        """Nanoseconds since 1970 at a reading of `perf_counter`."""
        return self._epoch_nanoseconds + int(seconds * _NANOSECONDS)
