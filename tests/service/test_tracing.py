import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from urllib.parse import quote

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from service.sight.tracing import Tracing
from service.wire.context import STAGES

RAN = [
    stage for stage in STAGES if stage != "rerank"
]  # there is no re-ranker, and all others have something to do
BOOST = quote('[{"filter": {}, "weight": 0.1}]')
ASKED = f"q=private&highlight=words&filter={{}}&boost={BOOST}&sort=length:asc"


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(spans) -> Iterator[Tracing]:
    tracing = Tracing(SimpleSpanProcessor(spans))
    yield tracing
    tracing.close()


def test_a_request_is_a_span_with_one_for_each_stage_inside(
    make_application, small_searcher, spans, tracing
):
    application = make_application(small_searcher, tracing=tracing)
    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {"traceparent": caller, "X-Request-Id": "abc"}
    application.ask("GET", f"/search?{ASKED}", headers=headers)
    *stages, request = spans.get_finished_spans()
    assert request.name == "GET /search"
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["swiftlet.request_id"] == "abc"
    assert format(request.context.trace_id, "032x") in caller
    assert format(request.parent.span_id, "016x") in caller
    assert [stage.name for stage in stages] == RAN
    assert {stage.parent.span_id for stage in stages} == {request.context.span_id}
    for earlier, later in pairwise(stages):
        assert earlier.start_time <= earlier.end_time == later.start_time
    assert request.start_time <= stages[0].start_time
    assert stages[-1].end_time <= request.end_time
    assert "private" not in "".join(span.to_json() for span in spans.get_finished_spans())


def test_a_failure_of_the_service_is_one_of_its_span_too(
    make_application, small_searcher, spans, tracing
):
    application = make_application(small_searcher, tracing=tracing)
    application.state.drain()
    application.ask("GET", "/search?q=bread")
    (not_ready,) = spans.get_finished_spans()
    assert not_ready.status.status_code is StatusCode.ERROR
    assert not_ready.attributes["swiftlet.problem"] == "not-ready"


def test_spans_are_sent_to_where_the_standard_variables_say(start_server, monkeypatch):
    received: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        threading.Thread(target=collector.serve_forever).start()
        address = f"http://127.0.0.1:{collector.server_port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        server = start_server(tracing="true")
        with server.client() as client:
            client.get(f"/search?{ASKED}").raise_for_status()
        server.process.terminate()
        assert server.ended() == 0
        collector.shutdown()
    sent = b"".join(received)
    assert all(stage.encode() in sent for stage in (*RAN, "GET /search"))
    assert b"private" not in sent
