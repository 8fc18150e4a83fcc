"""Judgements by people, for the page at /judge."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.live.judging import Judging
from service.live.state import Service
from service.wire.answers import JudgedAnswer, PoolAnswer
from service.wire.body import JsonRoute, json_response
from service.wire.openapi import problems
from service.wire.requests import RequestModel
from swiftlet.corpora.identifiers import LONGEST_ID
from swiftlet.errors import InvalidArgumentError, ReadOnlyStorageError, StorageError
from swiftlet.relevance.judgements import GRADES, LONGEST_NAME

_Id = Annotated[
    str,
    Field(
        min_length=1, max_length=LONGEST_ID, description=f"an id of up to {LONGEST_ID} characters"
    ),
]


class PoolRequest(RequestModel):
    """The parameters of `GET /judge/pool`."""

    judge: Annotated[
        str,
        Field(
            min_length=1,
            max_length=LONGEST_NAME,
            description=f"the name of a judge, of up to {LONGEST_NAME} characters,",
        ),
    ]


class JudgementRequest(PoolRequest):
    """The body of `POST /judge/judgements`."""

    query_id: _Id
    document_id: _Id
    grade: Annotated[
        Annotated[int, Field(ge=0, lt=len(GRADES))] | None,
        Field(description=f"a grade from 0 to {len(GRADES) - 1}, or null to take it back,"),
    ]


class _JudgeRoute(JsonRoute):
    limit = "max_search_body_bytes"
    refuses_overload = False


def judging_router(judging: Judging, service: Service) -> APIRouter:
    """The routes of a service with a folder of judgements."""
    router = APIRouter(route_class=_JudgeRoute)

    @router.get("/judge/pool", response_model=PoolAnswer, responses=problems(InvalidArgumentError))
    async def pool(asked: Annotated[PoolRequest, Query()]) -> Response:
        """Everything to judge, with what this judge has judged."""
        searcher = service.state.loaded.searcher
        return json_response(
            await run_in_threadpool(lambda: to_json(judging.pool(asked.judge, searcher)))
        )

    @router.post(
        "/judge/judgements",
        responses=problems(InvalidArgumentError, ReadOnlyStorageError, StorageError, body=True),
    )
    async def judgements(asked: JudgementRequest) -> JudgedAnswer:
        """Keep a grade, or take it back; that is on the disk when this is answered."""
        return JudgedAnswer(judged=await run_in_threadpool(judging.judge, **asked.model_dump()))

    return router
