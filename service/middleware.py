"""Watches over every request: the headers of its answer, metrics, traces, and the log."""

import logging
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.headers import CrossOrigin, security_headers
from service.metrics import CLIENT_LEFT, UNKNOWN_ROUTE, Metrics
from service.observation import observe
from service.problems import problem_response
from service.state import ServiceState

if TYPE_CHECKING:  # its packages come with an extra
    from service.tracing import Tracing

PREFLIGHT_STATUS = 204

logger = logging.getLogger(__name__)


class ObservationMiddleware:
    """Plain ASGI, since each layer of request and response objects would cost every search."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: Metrics,
        state: ServiceState,
        access_log: bool,
        cross_origin: CrossOrigin | None,
        tracing: "Tracing | None",
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._state = state
        self._access_log = access_log
        self._cross_origin = cross_origin
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request of `scope`, whatever happens inside."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        observation = observe(scope)
        status = CLIENT_LEFT

        async def observed_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", observation.request_id.encode()),
                    (b"server-timing", observation.server_timing().encode()),
                    *security_headers(message["headers"]),
                ]
                if self._cross_origin is not None:
                    message["headers"] += self._cross_origin.headers(scope)
                if self._state.draining:
                    # So that the client's next request does not meet a closed connection.
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        self._metrics.in_flight.inc()
        try:
            if self._cross_origin is not None and (headers := self._cross_origin.preflight(scope)):
                await Response(status_code=PREFLIGHT_STATUS, headers=headers)(
                    scope, receive, observed_send
                )
            else:
                await self._app(scope, receive, observed_send)
        except ClientDisconnect:
            pass  # nobody is there to answer
        except Exception as error:
            logger.exception(
                "request %s failed",
                observation.request_id,
                extra={"request_id": observation.request_id},
            )
            if status != CLIENT_LEFT:
                raise  # the answer has begun; the server cuts the connection
            response = problem_response(error, observation)
            await response(scope, receive, observed_send)
        finally:
            route = getattr(scope.get("route"), "path_format", UNKNOWN_ROUTE)
            seconds = observation.seconds
            self._metrics.in_flight.dec()
            self._metrics.record(route, status, seconds, observation)
            if self._tracing is not None:
                self._tracing.record(scope, route, status, observation)
            if self._access_log:
                # The route, not the path and its parameters: what people ask is theirs.
                logger.info(
                    "%s %s %s %d %.2f ms",
                    observation.request_id,
                    scope["method"],
                    route,
                    status,
                    1000 * seconds,
                    extra={
                        "request_id": observation.request_id,
                        "method": scope["method"],
                        "route": route,
                        "status": status,
                        "milliseconds": round(1000 * seconds, 3),
                    },
                )
