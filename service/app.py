"""The FastAPI application, put together from its parts."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import APIRouter, Depends, FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.routing import iter_route_contexts

from service.admission.executor import LineExecutor, SearchExecutor
from service.live.challenger import Challenger
from service.live.indexes import Indexes
from service.live.insight import Insight
from service.live.judging import Judging
from service.live.no_index import NoIndex
from service.live.query_log import QueryLog
from service.live.reload import Reloader
from service.live.state import Service, ServiceState
from service.live.writing import Writing
from service.middleware import RequestContextMiddleware
from service.routes import operation
from service.routes.documentation import documentation_router
from service.routes.documents import documents_router
from service.routes.embeddings import embeddings_router
from service.routes.feedback import feedback_router
from service.routes.files import files_router
from service.routes.indexes import indexes_router
from service.routes.insight import insight_router
from service.routes.judging import judging_router
from service.routes.operation import admin_router, without_index
from service.routes.page import page_router
from service.routes.rerank import rerank_router
from service.routes.search import batch_router, search_router
from service.routes.writes import writes_router
from service.sight.metrics import CLIENT_LEFT, UNKNOWN_ROUTE, Metrics
from service.wire.body import JsonRoute
from service.wire.connection import UnreadAnswers
from service.wire.keys import ApiKey
from service.wire.openapi import openapi_of, problems
from service.wire.problems import MissingKeyError
from service.wire.refusals import add_problem_handlers
from service.wire.requests import Limits
from service.wire.rights import BusyKeyError, WrongKeyError
from service.wire.turns import Turns

if TYPE_CHECKING:  # its packages come with an extra
    from service.sight.tracing import Tracing

_METHOD_NOT_ALLOWED = 405


def create_app(
    state: ServiceState,
    *,
    limits: Limits,
    executor: SearchExecutor | LineExecutor,
    metrics: Metrics,
    unread: UnreadAnswers | None = None,
    turns: Turns | None = None,
    access_log: bool = False,
    reloader: Reloader | None = None,
    writing: Writing | None = None,
    search_key: ApiKey | None = None,
    admin_key: ApiKey | None = None,
    write_key: ApiKey | None = None,
    cors_origins: Sequence[str] = (),
    files: Path | None = None,
    query_log: QueryLog | None = None,
    insight: Insight | None = None,
    challenger: Challenger | None = None,
    judging: Judging | None = None,
    tracing: "Tracing | None" = None,
    indexes: Indexes | None = None,
    is_inner: bool = False,
) -> FastAPI:
    """The HTTP application over the searcher in `state`, counting into `metrics`.

    Without `search_key`, searches need no key. Without `reloader`, there is no route to reload;
    without `admin_key`, that route refuses every request. The same holds for `insight`, `judging`,
    and `writing` with `write_key`. The originals of documents are below `files`.
    With `is_inner`, another one of these applications has it among its `indexes`.

    :param unread: The connections with answers that clients have not read yet.
    :param turns: What heads and bodies take on the event loop, on connections and in routes.
    """
    app = FastAPI(
        title="Swiftlet",
        description="Hybrid retrieval. Errors are problems as RFC 9457 has them.",
        version=version("swiftlet-retrieval"),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # The middleware has traces and metrics of its own: FastAPI's would record query strings,
        # and cost time in every request.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.service = service = Service(
        state,
        executor,
        limits,
        unread or UnreadAnswers(),
        turns or Turns(),
        has_files=files is not None,
        log=query_log,
        challenger=challenger,
    )
    app.state.metrics = metrics
    add_problem_handlers(app)
    # FastAPI tries one router after the other, so the most frequent routes come first.
    of_index = [search_router(service), batch_router(service)], [documents_router()]
    page = page_router()
    if isinstance(state.loaded.searcher, NoIndex):
        app.include_router(without_index([*of_index[0], *of_index[1], page]))
        of_index = [], []
    for router in (
        *of_index[0],
        embeddings_router(service),
        rerank_router(service),
        *of_index[1],
    ):
        _include(app, router, search_key)
    if files is not None:
        _include(app, files_router(files), search_key)
    if query_log is not None:
        _include(app, feedback_router(query_log), search_key)
    if indexes is not None:
        _include(app, indexes_router(indexes), search_key)
        app.mount("/indexes", indexes)
    of_service = [] if is_inner else [operation.router]
    for router in (*of_service, page, documentation_router(app)):
        app.include_router(router)
    of_admin = [] if reloader is None else [admin_router(reloader)]
    of_admin += [] if insight is None else [insight_router(insight)]
    of_admin += [] if judging is None else [judging_router(judging, service)]
    for router in of_admin:
        _include(app, router, admin_key or ApiKey([], variable="SWIFTLET_ADMIN_KEYS"))
    if writing is not None:
        key = write_key or ApiKey([], variable="SWIFTLET_WRITE_KEYS")
        _include(app, writes_router(limits, writing), key)
    app.openapi = openapi_of(app)  # type: ignore[method-assign]
    for route in iter_route_contexts(app.routes):
        if route.path_format is not None:
            statuses = [200, _METHOD_NOT_ALLOWED, CLIENT_LEFT, *getattr(route, "responses", ())]
            metrics.expect(route.path_format, map(int, statuses))
    if is_inner:
        return app
    if cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=cors_origins,
            allow_methods=["GET", "HEAD", "POST", "PUT", "DELETE"],
            allow_headers=["authorization", "content-type", "traceparent", "x-request-id"],
            expose_headers=["retry-after", "server-timing", "x-request-id", "x-reranked"],
        )
        metrics.expect(UNKNOWN_ROUTE, [200, 400])
    app.add_middleware(
        RequestContextMiddleware,
        state=state,
        turns=service.turns,
        metrics=metrics,
        access_log=access_log,
        tracing=tracing,
    )
    return app


def _include(app: FastAPI, router: APIRouter, key: ApiKey | None) -> None:
    """Add the routes of `router`; with `key`, their requests need one."""
    if key is None:
        app.include_router(router)
    else:
        for route in router.routes:
            if isinstance(route, JsonRoute):
                route.key = key  # FastAPI reads a body before it runs dependencies
        app.include_router(
            router,
            dependencies=[Depends(key)],
            responses=problems(MissingKeyError, WrongKeyError, BusyKeyError, ready=False),
        )
