"""The route for operators."""

from fastapi import APIRouter

from service.live.reload import Reloader
from service.wire.body import json_route
from service.wire.limits import Limits
from service.wire.openapi import problems
from service.wire.problems import ReloadRefusedError
from service.wire.schemas import ReloadAnswer, RequestModel
from swiftlet.errors import InvalidArgumentError


class ReloadRequest(RequestModel):
    """The body of `POST /admin/reload`, which has no fields and may be left out."""


_NOTHING = ReloadRequest()


def admin_router(limits: Limits, reloader: Reloader) -> APIRouter:
    """The route for reloading."""
    router = APIRouter(
        route_class=json_route(
            max_bytes=limits.max_search_body_bytes,
            timeout_ms=limits.body_timeout_ms,
            empty=b"{}",
            refuses_overload=False,
        )
    )

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
