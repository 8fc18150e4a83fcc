"""What the server calls: finds a request's route, and watches over it until it is answered."""

import asyncio
import logging
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.headers import CrossOrigin, security_headers
from service.metrics import CLIENT_LEFT, UNKNOWN_ROUTE, Metrics
from service.observation import Observation, observe
from service.problems import (
    PROBLEMS,
    InternalError,
    NotReadyError,
    kind_of,
    problem_response,
)
from service.routing import RouteTable
from service.state import ServiceState

if TYPE_CHECKING:  # its packages come with an extra
    from service.tracing import Tracing

PREFLIGHT_STATUS = 204

_INTERNAL = PROBLEMS[InternalError]
_ENDED = "the service has ended before there was an answer; ask another one"

logger = logging.getLogger(__name__)


class Application:
    """Answers requests: the headers of every answer, metrics, traces, and the log."""

    def __init__(
        self,
        routes: RouteTable,
        *,
        metrics: Metrics,
        state: ServiceState,
        access_log: bool,
        cross_origin: CrossOrigin | None,
        tracing: "Tracing | None",
    ) -> None:
        self._routes = routes
        self._metrics = metrics
        self._state = state
        self._access_log = access_log
        self._cross_origin = cross_origin
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request of `scope`, whatever happens inside."""
        observation = observe(scope)
        status = CLIENT_LEFT
        self._metrics.in_flight.inc()
        try:
            response = await self._answer(Request(scope, receive), observation)
            self._add_headers(response, scope, observation)
            status = response.status_code
            await response(scope, receive, send)
        except ClientDisconnect:
            pass  # nobody is there to answer
        finally:
            self._metrics.in_flight.dec()
            self._record(scope, status, observation)

    async def _answer(self, request: Request, observation: Observation) -> Response:
        scope = request.scope
        if self._cross_origin is not None and (headers := self._cross_origin.preflight(scope)):
            return Response(status_code=PREFLIGHT_STATUS, headers=headers)
        try:
            return await self._routes.find(scope)(request)
        except ClientDisconnect:
            raise
        except asyncio.CancelledError:
            # Only the server's end does this, and the task ends with the answer.
            return problem_response(NotReadyError(_ENDED), observation)
        except Exception as error:
            if kind_of(error) is _INTERNAL:
                logger.exception(
                    "request %s failed",
                    observation.request_id,
                    extra={"request_id": observation.request_id},
                )
            return problem_response(error, observation)

    def _add_headers(self, response: Response, scope: Scope, observation: Observation) -> None:
        headers = response.raw_headers
        headers += security_headers(headers)
        headers.append((b"x-request-id", observation.request_id.encode()))
        headers.append((b"server-timing", observation.server_timing().encode()))
        if self._cross_origin is not None:
            headers += self._cross_origin.headers(scope)
        if self._state.draining:
            # So that the client's next request does not meet a closed connection.
            headers.append((b"connection", b"close"))

    def _record(self, scope: Scope, status: int, observation: Observation) -> None:
        route = getattr(scope.get("route"), "path_format", UNKNOWN_ROUTE)
        seconds = observation.seconds
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
