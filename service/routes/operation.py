"""For operators: health, metrics, and reloading."""

from collections.abc import Sequence
from itertools import chain

from fastapi import APIRouter, Depends, Request
from fastapi.responses import PlainTextResponse
from fastapi.routing import APIRoute
from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

from service.live.no_index import NO_INDEX
from service.live.reload import Reloader
from service.live.state import ready_service
from service.sight.metrics import Metrics
from service.wire.answers import HealthAnswer, ReloadAnswer
from service.wire.body import JsonRoute, beside_loop
from service.wire.openapi import problems
from service.wire.problems import NotReadyError, ReloadRefusedError
from service.wire.requests import RequestModel
from swiftlet.errors import InvalidArgumentError

router = APIRouter()


@router.get("/health/live", responses=problems(ready=False))
async def live() -> HealthAnswer:
    """Answer while the process is alive."""
    return HealthAnswer(status="alive")


@router.get("/health/ready", responses=problems(), dependencies=[Depends(ready_service)])
async def ready() -> HealthAnswer:
    """Answer 200 while searches are answered."""
    return HealthAnswer(status="ready")


@router.get("/metrics", response_class=PlainTextResponse, responses=problems(ready=False))
async def metrics(request: Request) -> Response:
    """The metrics for Prometheus."""
    figures: Metrics = request.app.state.metrics
    try:
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
    except (TypeError, ValueError):  # a version that is no number
        encode, media_type = choose_encoder("")

    def written() -> bytes:
        return encode(figures.of_all(request.app.state.service))

    return Response(await beside_loop(written), media_type=media_type)


class ReloadRequest(RequestModel):
    """The body of `POST /admin/reload`, which has no fields and may be left out."""


_NOTHING = ReloadRequest()


class _ReloadRoute(JsonRoute):
    limit = "max_search_body_bytes"
    empty = b"{}"
    refuses_overload = False


def without_index(routers: Sequence[APIRouter]) -> APIRouter:
    """A router that answers the routes of others, which need an index, by a problem."""

    async def refuse() -> None:
        raise NotReadyError(NO_INDEX)

    router = APIRouter()
    for route in chain.from_iterable(each.routes for each in routers):
        if isinstance(route, APIRoute):
            methods = sorted(route.methods or ())
            router.add_api_route(route.path, refuse, methods=methods, include_in_schema=False)
    return router


def admin_router(reloader: Reloader) -> APIRouter:
    """The route for reloading."""
    router = APIRouter(route_class=_ReloadRoute)

    @router.post(
        "/admin/reload",
        responses=problems(InvalidArgumentError, ReloadRefusedError, body=True),
    )
    async def reload(
        asked: ReloadRequest = _NOTHING,  # noqa: ARG001 - it has no fields
    ) -> ReloadAnswer:
        """Load the index and the encoder again from their paths; SIGHUP does the same."""
        loaded = await reloader.reload()
        return ReloadAnswer(
            index=loaded.generation,
            encoder=loaded.searcher.encoder_manifest.fingerprint,
            num_documents=loaded.searcher.num_documents,
            num_passages=loaded.searcher.num_passages,
        )

    return router
