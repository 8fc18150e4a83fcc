"""Watches over every request: id and timing in its answer, metrics, and its failure in the log."""

import logging

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.metrics import CLIENT_LEFT, UNKNOWN_ROUTE, Metrics
from service.observation import observe
from service.problems import problem_response

logger = logging.getLogger(__name__)


class ObservationMiddleware:
    """Plain ASGI, since each layer of request and response objects would cost every search."""

    def __init__(self, app: ASGIApp, metrics: Metrics, *, access_log: bool) -> None:
        self._app = app
        self._metrics = metrics
        self._access_log = access_log

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
                ]
            await send(message)

        self._metrics.in_flight.inc()
        try:
            await self._app(scope, receive, observed_send)
        except ClientDisconnect:
            pass  # nobody is there to answer
        except Exception as error:
            logger.exception("request %s failed", observation.request_id)
            if status != CLIENT_LEFT:
                raise  # the answer has begun; the server cuts the connection
            response = problem_response(error, observation.request_id)
            await response(scope, receive, observed_send)
        finally:
            route = getattr(scope.get("route"), "path_format", UNKNOWN_ROUTE)
            seconds = observation.seconds
            self._metrics.in_flight.dec()
            self._metrics.record(route, status, seconds, observation.searches)
            if self._access_log:
                # The route, not the path and its parameters: what people ask is theirs.
                logger.info(
                    "%s %s %s %d %.2f ms",
                    observation.request_id,
                    scope["method"],
                    route,
                    status,
                    1000 * seconds,
                )
