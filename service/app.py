"""The application, put together from its parts."""

import logging
from collections.abc import Callable, Coroutine
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from retrieval.errors import InvalidArgumentError, RetrievalError, UnknownDocumentError
from service.documentation import Documentation
from service.metrics import CLIENT_LEFT, Metrics
from service.middleware import ObservationMiddleware
from service.observation import observation_of
from service.openapi import Operation, add_operation
from service.problems import (
    PROBLEMS,
    InternalError,
    MalformedBodyError,
    MethodNotAllowedError,
    NotReadyError,
    TooLargeError,
    TooManyQueriesError,
    UnknownRouteError,
    kind_of,
    problem_response,
)
from service.routes import Routes
from service.schemas import (
    BatchAnswer,
    DocumentAnswer,
    HealthAnswer,
    InfoAnswer,
    Limits,
    SearchAnswer,
)
from service.state import ServiceState
from service.workers import Workers

_WRONG_METHOD = PROBLEMS[MethodNotAllowedError].status

logger = logging.getLogger(__name__)


class _DirectRoute(APIRoute):
    """Calls its endpoint with the request, since there are no dependencies to solve.

    FastAPI's own handler, given the body as a parameter, takes 50 µs more: a tenth of a search.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The endpoint itself."""
        return self.endpoint


def create_app(
    state: ServiceState,
    *,
    limits: Limits,
    workers: Workers,
    registry: CollectorRegistry,
    access_log: bool = False,
) -> FastAPI:
    """The HTTP application over the searcher in `state`, counting into `registry`."""
    app = FastAPI(
        title="Swiftlet",
        description="Dense retrieval. Errors are problems as RFC 9457 has them.",
        version=version("swiftlet-retrieval"),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.router.route_class = _DirectRoute
    metrics = Metrics(registry)
    for operation in operations(app, Routes(state, limits, workers, metrics)):
        add_operation(app, operation)
        metrics.expect(operation.label, [*operation.statuses, _WRONG_METHOD, CLIENT_LEFT])
    app.add_exception_handler(RetrievalError, _answer_refusal)
    app.add_exception_handler(HTTPException, _answer_unrouted)
    app.add_middleware(ObservationMiddleware, metrics=metrics, access_log=access_log)
    return app


def operations(app: FastAPI, routes: Routes) -> list[Operation]:
    """The contract: every operation with what it takes, answers and may end in."""
    documentation = Documentation(app)
    bad_body = (MalformedBodyError, TooLargeError, InvalidArgumentError)
    return [
        Operation(
            "POST",
            "/search",
            routes.search,
            SearchAnswer,
            errors=(*bad_body, NotReadyError),
            body=routes.read_search,
        ),
        Operation(
            "GET",
            "/search",
            routes.search_by_link,
            SearchAnswer,
            errors=(InvalidArgumentError, NotReadyError),
            query_string=routes.read_parameters,
        ),
        Operation(
            "POST",
            "/search/batch",
            routes.search_batch,
            BatchAnswer,
            errors=(*bad_body, TooManyQueriesError, NotReadyError),
            body=routes.read_batch,
        ),
        Operation(
            "GET",
            "/documents/{document_id:path}",
            routes.document,
            DocumentAnswer,
            errors=(UnknownDocumentError, NotReadyError),
            path_parameter="document_id",
        ),
        Operation("GET", "/info", routes.info, InfoAnswer, errors=(NotReadyError,)),
        Operation("GET", "/health/live", routes.live, HealthAnswer),
        Operation("GET", "/health/ready", routes.ready, HealthAnswer, errors=(NotReadyError,)),
        Operation("GET", "/metrics", routes.metrics, "text/plain"),
        Operation("GET", "/openapi.json", documentation.openapi, "application/json"),
        Operation("GET", "/docs", documentation.docs, "text/html"),
    ]


async def _answer_refusal(request: Request, error: Exception) -> Response:
    request_id = observation_of(request.scope).request_id
    if kind_of(error) is PROBLEMS[InternalError]:
        logger.error("request %s failed: %s", request_id, error)
    return problem_response(error, request_id)


async def _answer_unrouted(request: Request, error: Exception) -> Response:  # noqa: ARG001
    """The router's own errors; it names the methods of one route where several share a path."""
    path = request.scope["path"]
    allowed = {
        method
        for route in request.app.routes
        if route.path_regex.fullmatch(path)
        for method in route.methods
    }
    refusal: RetrievalError = UnknownRouteError("no route has this path; /docs lists the routes")
    if allowed:
        refusal = MethodNotAllowedError(request.method, sorted(allowed))
    return problem_response(refusal, observation_of(request.scope).request_id)
