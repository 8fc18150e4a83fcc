"""Health and metrics."""

from fastapi import APIRouter, Depends, Request
from fastapi.responses import PlainTextResponse
from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

from service.live.state import ready_service
from service.sight.metrics import Metrics
from service.wire.openapi import problems
from service.wire.schemas import HealthAnswer

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
    figures.update(request.app.state.service)
    try:
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
    except (TypeError, ValueError):  # a version that is no number
        encode, media_type = choose_encoder("")
    return Response(encode(figures.registry), media_type=media_type)
