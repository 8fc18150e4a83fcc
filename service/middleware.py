"""The middleware around every request: its context, headers, metrics, traces, log and failures."""

import asyncio
import logging
import re
from random import getrandbits
from time import perf_counter
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.live.state import ServiceState
from service.sight.metrics import CLIENT_LEFT, UNKNOWN_ROUTE, Metrics
from service.wire.context import RequestContext
from service.wire.problems import NotReadyError, problem_response
from service.wire.turns import Turns
from swiftlet.errors import shown

if TYPE_CHECKING:  # its packages come with an extra
    from service.sight.tracing import Tracing

_SECURITY_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
_SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
]

_SANE_PREFIX = re.compile(rb"(?=.{1,200}\Z)(?:/[\w.~-]+)+/?")
_SANE_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=@~-]{1,128}")

_ENDED = "the service has ended before there was an answer; ask another one"
_ENDED_WRITE = (
    "the service has ended before there was an answer; it is not known whether all is written: "
    "send it again"
)

logger = logging.getLogger(__name__)


class RequestContextMiddleware:
    """Gives requests a context and answers their headers; counts, traces and logs requests."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        state: ServiceState,
        turns: Turns,
        metrics: Metrics,
        access_log: bool,
        tracing: "Tracing | None",
    ) -> None:
        self._app = app
        self._state, self._turns = state, turns
        self._metrics = metrics
        self._access_log = access_log
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request of `scope`, also if the application fails."""
        if scope["type"] != "http":  # the application starts or ends
            await self._app(scope, receive, send)
            return
        method = scope["method"]
        if method == "HEAD":
            # Every GET route answers it; the server sends no body to it.
            scope = {**scope, "method": "GET"}
        # FastAPI parses cookies and query strings for every route.
        headers = [header for header in scope["headers"] if header[0] != b"cookie"]
        context = RequestContext("", perf_counter(), prefix=scope.get("root_path", ""))
        for name, value in headers:
            if name == b"x-request-id" and _SANE_REQUEST_ID.fullmatch(value):
                context.request_id = value.decode()  # the client's own
            elif name == b"x-forwarded-prefix" and _SANE_PREFIX.fullmatch(value):
                context.prefix = value.decode().rstrip("/")
        context.request_id = context.request_id or f"{getrandbits(64):016x}"
        state = {**scope.get("state", {}), "context": context}
        scope = {**scope, "headers": headers, "state": state}
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._add_headers(message["headers"], context)
            elif context.key is not None:
                context.key.use(len(message.get("body", b"")))
            await send(message)

        self._metrics.in_flight.inc()
        try:
            try:
                head_bytes = sum(len(name) + len(value) for name, value in headers)
                head_bytes += len(scope["raw_path"]) + len(scope["query_string"])
                await self._turns.take(head_bytes)
                await self._app(scope, receive, send_with_headers)
            except ClientDisconnect:
                pass  # no client is left to answer
            except asyncio.CancelledError as error:
                # The server cancels requests only when it ends.
                if not status:
                    is_write = scope["path"].startswith("/documents") and scope["method"] != "GET"
                    ended = NotReadyError(_ENDED_WRITE if is_write else _ENDED)
                    ended.__cause__ = error
                    await problem_response(ended, context)(scope, receive, send_with_headers)
            except Exception as error:
                logger.exception(
                    "request %s failed",
                    context.request_id,
                    extra={"request_id": context.request_id},
                )
                if status:
                    raise
                await problem_response(error, context)(scope, receive, send_with_headers)
        finally:
            self._metrics.in_flight.dec()
            self._record(scope, method, status or CLIENT_LEFT, context)

    def _add_headers(self, headers: list[tuple[bytes, bytes]], context: RequestContext) -> None:
        headers += _SECURITY_HEADERS
        if not any(name == b"content-security-policy" for name, _ in headers):
            headers.append(_SECURITY_POLICY)
        headers.append((b"x-request-id", context.request_id.encode()))
        headers.append((b"server-timing", context.server_timing().encode()))
        if self._state.draining:
            # Otherwise the client's next request could fail on a closed connection.
            headers.append((b"connection", b"close"))

    def _record(self, scope: Scope, method: str, status: int, context: RequestContext) -> None:
        route = getattr(scope.get("route"), "path_format", UNKNOWN_ROUTE)
        seconds = perf_counter() - context.began
        self._metrics.record(route, status, seconds, context)
        if self._tracing is not None:
            self._tracing.record(scope, method, route, status, seconds, context)
        if self._access_log:
            # The route, never the path or the parameters, so that no query is logged.
            key = "" if context.key is None else context.key.key.name
            logger.info(
                "%s %s %s %d %.2f ms%s",
                context.request_id,
                method,
                route,
                status,
                1000 * seconds,
                f" {shown(key)}" if key else "",
                extra={
                    "key": key,
                    "request_id": context.request_id,
                    "method": method,
                    "route": route,
                    "status": status,
                    "milliseconds": round(1000 * seconds, 3),
                },
            )
