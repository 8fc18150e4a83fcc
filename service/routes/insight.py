"""What people search, for the page at /insight."""

from fastapi import APIRouter

from service.live.insight import Insight
from service.wire.answers import InsightAnswer
from service.wire.body import JsonRoute
from service.wire.openapi import problems


class _InsightRoute(JsonRoute):
    refuses_overload = False


def insight_router(insight: Insight) -> APIRouter:
    """The route of a service that keeps a query log."""
    router = APIRouter(route_class=_InsightRoute)

    @router.get("/insight/report", responses=problems())
    async def report() -> InsightAnswer:
        """Report on the query log, as `swiftlet report` does."""
        return InsightAnswer.model_validate(await insight.report())

    return router
