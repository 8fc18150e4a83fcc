"""The names of the indexes of a folder."""

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from service.live.indexes import Indexes
from service.wire.answers import IndexesAnswer
from service.wire.openapi import problems


def indexes_router(indexes: Indexes) -> APIRouter:
    """The route of a service with a folder of indexes."""
    router = APIRouter()

    @router.get("/indexes", responses=problems())
    async def names(request: Request) -> IndexesAnswer:
        """The names of the indexes that the key opens.

        Each has the routes of an index alone below /indexes/NAME.
        """
        found, key = await run_in_threadpool(indexes.names), request.state.context.key
        return IndexesAnswer(indexes=[each for each in found if key is None or key.key.opens(each)])

    return router
