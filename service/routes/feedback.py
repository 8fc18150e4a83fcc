"""Clicks, for the query log."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from service.live.query_log import QueryLog
from service.wire.body import JsonRoute
from service.wire.openapi import problems
from service.wire.requests import RequestModel
from swiftlet.corpora.identifiers import LONGEST_ID
from swiftlet.errors import InvalidArgumentError

_LONGEST_REQUEST_ID = 128
_NO_CONTENT = 204


class FeedbackRequest(RequestModel):
    """The body of `POST /feedback`: which document was opened from which answer."""

    request_id: Annotated[
        str,
        Field(
            min_length=1,
            max_length=_LONGEST_REQUEST_ID,
            description="the X-Request-ID of the answer to a search",
        ),
    ]
    document_id: Annotated[
        str,
        Field(
            min_length=1,
            max_length=LONGEST_ID,
            description=f"an id of up to {LONGEST_ID} characters",
        ),
    ]


class _FeedbackRoute(JsonRoute):
    limit = "max_search_body_bytes"
    refuses_overload = False


def feedback_router(log: QueryLog) -> APIRouter:
    """The route of a service that keeps a query log."""
    router = APIRouter(route_class=_FeedbackRoute)

    @router.post(
        "/feedback", status_code=_NO_CONTENT, responses=problems(InvalidArgumentError, body=True)
    )
    async def feedback(asked: FeedbackRequest) -> None:
        """Note that a document was opened from the answer to a search."""
        log.clicked(asked.request_id, asked.document_id)

    return router
