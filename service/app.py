"""The application, put together from its parts."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from retrieval.errors import InvalidArgumentError, UnknownDocumentError
from service.asgi import PREFLIGHT_STATUS, Application
from service.documentation import Documentation
from service.embeddings import EmbeddingRoutes
from service.headers import CrossOrigin
from service.keys import KeyLock
from service.metrics import CLIENT_LEFT, UNKNOWN_ROUTE, Metrics
from service.openapi import Operation, add_operation
from service.page import add_page
from service.problems import (
    PROBLEMS,
    BodyTimeoutError,
    DeadlineError,
    MalformedBodyError,
    MethodNotAllowedError,
    NotReadyError,
    QueueFullError,
    ReloadRefusedError,
    TooLargeError,
    TooManyQueriesError,
)
from service.reload import Reloader, ReloadRoute
from service.routes import Routes
from service.routing import RouteTable
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

_BAD_BODY = (MalformedBodyError, BodyTimeoutError, TooLargeError, InvalidArgumentError)
_NO_TURN = (QueueFullError, DeadlineError)
_WRONG_METHOD = PROBLEMS[MethodNotAllowedError].status

if TYPE_CHECKING:  # its packages come with an extra
    from service.tracing import Tracing


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
) -> Application:
    """The HTTP application over the searcher in `state`, counting into `registry`.

    Without `search_lock` anybody may search; without `reloader` there is no route to reload, and
    without `admin_lock` nobody may take it.
    """
    # What is offered, and the document of it.
    contract = FastAPI(
        title="Swiftlet",
        description="Dense retrieval. Errors are problems as RFC 9457 has them.",
        version=version("swiftlet-retrieval"),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    metrics = Metrics(registry)
    routes = Routes(state, limits, workers, metrics)
    offered = [
        *search_operations(routes, EmbeddingRoutes(state, limits, workers), search_lock),
        *watching_operations(routes, Documentation(contract)),
    ]
    if reloader is not None:
        lock = admin_lock or KeyLock([], variable="SWIFTLET_ADMIN_KEYS")
        offered.append(reload_operation(ReloadRoute(reloader, limits), lock))
    for operation in offered:
        add_operation(contract, operation)
        metrics.expect(operation.label, [*operation.statuses, _WRONG_METHOD, CLIENT_LEFT])
    add_page(contract, metrics)
    if cross_origin is not None:
        metrics.expect(UNKNOWN_ROUTE, [PREFLIGHT_STATUS])
    return Application(
        RouteTable(contract.routes),
        metrics=metrics,
        state=state,
        access_log=access_log,
        cross_origin=cross_origin,
        tracing=tracing,
    )


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
        errors=(*_BAD_BODY, ReloadRefusedError, NotReadyError),
        body=route.read,
        lock=lock,
    )
