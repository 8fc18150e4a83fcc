"""The values of the fields that the index declares as facets."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from pydantic_core import to_json
from starlette.responses import Response

from service.live.state import LoadedIndex, ReadyService
from service.routes.search import check_query_string
from service.wire.limits import Limits
from service.wire.openapi import problems
from service.wire.problems import DeadlineError, QueueFullError
from service.wire.schemas import FacetsAnswer, FilterText, LinkModel
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.columns.filters import Filter


class FacetParameters(LinkModel):
    """The query string of `GET /facets`."""

    filter: FilterText = None


def facets_router(limits: Limits) -> APIRouter:
    """The route that counts the values of facets."""
    router = APIRouter()

    @router.get(
        "/facets",
        response_model=FacetsAnswer,
        responses=problems(InvalidArgumentError, QueueFullError, DeadlineError),
        dependencies=[Depends(check_query_string)],
    )
    async def facets(
        asked: Annotated[FacetParameters, Query()], request: Request, service: ReadyService
    ) -> Response:
        """Count the values of the facets, for all documents or for those that pass a filter."""
        (completed,) = await service.executor.map(
            partial(_count, service.loaded),
            [asked.filter],
            deadline=request.state.context.began + limits.timeout_ms / 1000,
            receive=request.receive,
        )
        return Response(completed.result, media_type="application/json")

    return router


def _count(loaded: LoadedIndex, chosen: Filter | None) -> bytes:
    facets = {
        field: [{"value": value, "count": count} for value, count in values]
        for field, values in loaded.searcher.facets(chosen).items()
    }
    return to_json({"facets": facets, "index": loaded.generation})
