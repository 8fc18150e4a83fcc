"""The application, put together from its parts."""

import logging
from collections.abc import Callable, Coroutine
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from retrieval.errors import InvalidArgumentError, RetrievalError, UnknownDocumentError
from service.documentation import Documentation
from service.embeddings import EmbeddingRoutes
from service.headers import CrossOrigin
from service.keys import KeyLock
from service.metrics import CLIENT_LEFT, UNKNOWN_ROUTE, Metrics
from service.middleware import PREFLIGHT_STATUS, ObservationMiddleware
from service.observation import observation_of
from service.openapi import Operation, add_operation
from service.page import add_page
from service.problems import (
    PROBLEMS,
    DeadlineError,
    InternalError,
    MalformedBodyError,
    MethodNotAllowedError,
    NotReadyError,
    QueueFullError,
    ReloadRefusedError,
    TooLargeError,
    TooManyQueriesError,
    UnknownRouteError,
    kind_of,
    problem_response,
)
from service.reload import Reloader, ReloadRoute
from service.routes import Routes
from service.schemas import (
    BatchAnswer,
    DocumentAnswer,
    EmbeddingsAnswer,
    HealthAnswer,
    InfoAnswer,
    Limits,
    ReloadAnswer,
    SearchAnswer,
)
from service.state import ServiceState
from service.workers import Workers

_BAD_BODY = (MalformedBodyError, TooLargeError, InvalidArgumentError)
_NO_TURN = (QueueFullError, DeadlineError)
_WRONG_METHOD = PROBLEMS[MethodNotAllowedError].status

if TYPE_CHECKING:  # its packages come with an extra
    from service.tracing import Tracing

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
    reloader: Reloader | None = None,
    search_lock: KeyLock | None = None,
    admin_lock: KeyLock | None = None,
    cross_origin: CrossOrigin | None = None,
    tracing: "Tracing | None" = None,
) -> FastAPI:
    """The HTTP application over the searcher in `state`, counting into `registry`.

    Without `search_lock` anybody may search; without `reloader` there is no route to reload, and
    without `admin_lock` nobody may take it.
    """
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
    routes = Routes(state, limits, workers, metrics)
    offered = [
        *search_operations(routes, EmbeddingRoutes(state, limits, workers), search_lock),
        *watching_operations(routes, Documentation(app)),
    ]
    if reloader is not None:
        lock = admin_lock or KeyLock([], variable="SWIFTLET_ADMIN_KEYS")
        offered.append(reload_operation(ReloadRoute(reloader, limits), lock))
    for operation in offered:
        add_operation(app, operation)
        metrics.expect(operation.label, [*operation.statuses, _WRONG_METHOD, CLIENT_LEFT])
    add_page(app, metrics)
    app.add_exception_handler(RetrievalError, _answer_refusal)
    app.add_exception_handler(HTTPException, _answer_unrouted)
    if cross_origin is not None:
        metrics.expect(UNKNOWN_ROUTE, [PREFLIGHT_STATUS])
    app.add_middleware(
        ObservationMiddleware,
        metrics=metrics,
        state=state,
        access_log=access_log,
        cross_origin=cross_origin,
        tracing=tracing,
    )
    return app


def search_operations(
    routes: Routes, embedding_routes: EmbeddingRoutes, lock: KeyLock | None
) -> list[Operation]:
    """The contract of what gives answers out of the index or the encoder."""
    return [
        Operation(
            "POST",
            "/search",
            routes.search,
            SearchAnswer,
            errors=(*_BAD_BODY, *_NO_TURN, NotReadyError),
            body=routes.read_search,
            lock=lock,
        ),
        Operation(
            "GET",
            "/search",
            routes.search_by_link,
            SearchAnswer,
            errors=(InvalidArgumentError, *_NO_TURN, NotReadyError),
            query_string=routes.read_parameters,
            lock=lock,
        ),
        Operation(
            "POST",
            "/search/batch",
            routes.search_batch,
            BatchAnswer,
            errors=(*_BAD_BODY, TooManyQueriesError, *_NO_TURN, NotReadyError),
            body=routes.read_batch,
            lock=lock,
        ),
        Operation(
            "POST",
            "/v1/embeddings",
            embedding_routes.embeddings,
            EmbeddingsAnswer,
            errors=(*_BAD_BODY, TooManyQueriesError, *_NO_TURN, NotReadyError),
            body=embedding_routes.read,
            lock=lock,
        ),
        Operation(
            "GET",
            "/documents/{document_id:path}",
            routes.document,
            DocumentAnswer,
            errors=(UnknownDocumentError, *_NO_TURN, NotReadyError),
            path_parameter="document_id",
            lock=lock,
        ),
        Operation("GET", "/info", routes.info, InfoAnswer, errors=(NotReadyError,), lock=lock),
    ]


def watching_operations(routes: Routes, documentation: Documentation) -> list[Operation]:
    """The contract of what tells how the service is, and what it offers."""
    return [
        Operation("GET", "/health/live", routes.live, HealthAnswer),
        Operation("GET", "/health/ready", routes.ready, HealthAnswer, errors=(NotReadyError,)),
        Operation("GET", "/metrics", routes.metrics, "text/plain"),
        Operation("GET", "/openapi.json", documentation.openapi, "application/json"),
        Operation("GET", "/docs", documentation.docs, "text/html"),
    ]


def reload_operation(route: ReloadRoute, lock: KeyLock) -> Operation:
    """The contract of what an operator may do."""
    return Operation(
        "POST",
        "/admin/reload",
        route.reload,
        ReloadAnswer,
        errors=(*_BAD_BODY, ReloadRefusedError),
        body=route.read,
        lock=lock,
    )


async def _answer_refusal(request: Request, error: Exception) -> Response:
    observation = observation_of(request.scope)
    if kind_of(error) is PROBLEMS[InternalError]:
        logger.error("request %s failed: %s", observation.request_id, error)
    return problem_response(error, observation)


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
    return problem_response(refusal, observation_of(request.scope))
