"""Titles of documents for what is being typed."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from pydantic import Field
from pydantic_core import to_json
from starlette.responses import Response

from service.live.state import ReadyService
from service.routes.search import check_query_string
from service.wire.limits import Limits
from service.wire.openapi import problems
from service.wire.problems import DeadlineError, QueueFullError
from service.wire.schemas import SEARCHABLE, LinkModel, Searchable, SuggestAnswer
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.lexical.titles import TitleIndex

_LONGEST, _MOST = 200, 20


class SuggestParameters(LinkModel):
    """The query string of `GET /suggest`."""

    q: Annotated[
        str,
        Field(
            min_length=1,
            max_length=_LONGEST,
            description=f"a text of 1 to {_LONGEST} characters, not all blank",
            json_schema_extra={"pattern": SEARCHABLE},
        ),
        Searchable,
    ]
    limit: int = Field(8, ge=1, le=_MOST, description=f"a whole number from 1 to {_MOST}")


def suggest_router(limits: Limits) -> APIRouter:
    """The route that suggests titles."""
    router = APIRouter()

    @router.get(
        "/suggest",
        response_model=SuggestAnswer,
        responses=problems(InvalidArgumentError, QueueFullError, DeadlineError),
        dependencies=[Depends(check_query_string)],
    )
    async def suggest(
        asked: Annotated[SuggestParameters, Query()], request: Request, service: ReadyService
    ) -> Response:
        """Give the titles that have the typed words, the last one as a beginning, with typos."""
        deadline = request.state.context.began + limits.timeout_ms / 1000
        titles = await service.loaded.suggestions.titles(deadline)
        (completed,) = await service.executor.map(
            partial(_suggest, titles, asked.limit),
            [asked.q],
            deadline=deadline,
            receive=request.receive,
        )
        return Response(completed.result, media_type="application/json")

    return router


def _suggest(titles: TitleIndex | None, limit: int, text: str) -> bytes:
    found = [] if titles is None else titles.find(text, limit)
    return to_json({"suggestions": [suggestion._asdict() for suggestion in found]})
