"""The names of the indexes of a folder."""

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool

from service.live.indexes import Indexes
from service.wire.answers import IndexesAnswer
from service.wire.openapi import problems


def indexes_router(indexes: Indexes) -> APIRouter:
    """The route of a service with a folder of indexes."""
    router = APIRouter()

    @router.get("/indexes", responses=problems())
    async def names() -> IndexesAnswer:
        """The names of the indexes; each has the routes of an index alone below /indexes/NAME."""
        return IndexesAnswer(indexes=await run_in_threadpool(indexes.names))

    return router
