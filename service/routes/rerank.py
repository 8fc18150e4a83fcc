"""Scores of texts for a query, with requests and answers as Cohere and TEI have them."""

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BeforeValidator, Field
from pydantic_core import to_json
from starlette.responses import Response

from service.admission.cost import COST
from service.live.state import Service
from service.wire.answers import RerankAnswer, TextScore
from service.wire.body import JsonRoute, json_response
from service.wire.context import SearchTimes
from service.wire.openapi import problems
from service.wire.problems import (
    DeadlineError,
    InvalidRequestError,
    QueueFullError,
    TooManyQueriesError,
)
from service.wire.requests import RequestFields, RequestModel, Searchable
from swiftlet.errors import InvalidArgumentError
from swiftlet.search.stages.hits import Rerank

_REFUSALS = (InvalidArgumentError, TooManyQueriesError, QueueFullError, DeadlineError)
_IGNORED = ", which is ignored,"


def rerank_router(service: Service) -> APIRouter:
    """The route of a re-ranker."""
    limits = service.limits
    fields = RequestFields(limits)
    bounded: Any = partial(Field, None, min_length=1, max_length=limits.max_reranked)
    expected = f"a list of 1 to {limits.max_reranked} texts"

    class RerankRequest(RequestModel):
        """The body of `POST /rerank`: `documents` as Cohere, or `texts` as TEI has them."""

        query: Annotated[str, fields.query, Searchable]
        documents: Annotated[list[str] | None, BeforeValidator(_texts_of)] = bounded(
            description=f"{expected}, or of objects with a text,"
        )
        top_n: int | None = Field(None, ge=1, description="a whole number from 1, or null")
        return_documents: bool = Field(False, description="true or false")
        texts: list[str] | None = bounded(description=expected)
        raw_scores: bool = Field(False, description="true or false")
        return_text: bool = Field(False, description="true or false")
        timeout_ms: Annotated[int, fields.timeout_ms] = limits.timeout_ms
        model: str = Field("", description=f"a text{_IGNORED}")
        max_tokens_per_doc: int | None = Field(None, description=f"a whole number{_IGNORED}")
        truncate: bool | None = Field(None, description=f"true or false{_IGNORED}")
        truncation_direction: str = Field("", description=f"a text{_IGNORED}")

    router = APIRouter(route_class=JsonRoute)

    @router.post(
        "/rerank",
        response_model=RerankAnswer | list[TextScore],
        responses=problems(*_REFUSALS, body=True),
    )
    @router.post("/v1/rerank", include_in_schema=False)
    @router.post("/v2/rerank", include_in_schema=False)
    async def rerank(asked: RerankRequest, request: Request) -> Response:
        """Score texts for a query: the answer to `documents` is Cohere's, to `texts` TEI's."""
        reranker, context = service.state.loaded.searcher.reranker, request.state.context
        given = [each for each in (asked.documents, asked.texts) if each is not None]
        if len(given) != 1:
            found = "both documents and texts" if given else "neither documents nor texts"
            raise InvalidRequestError("", f"the body has {found}: give either documents or texts")
        if reranker is None:
            raise InvalidRequestError(
                "", "this service has no re-ranker, so it cannot score texts: ask its operator"
            )
        texts, deadline = given[0], context.began + asked.timeout_ms / 1000
        score = reranker.logit if asked.raw_scores else reranker.score
        # Other requests come between the parts; a short queue has room for fewer.
        num_parts = min(len(texts), max(1, service.executor.line.max_waiting // 2))
        completed = await service.executor.map(
            partial(_scores, partial(score, asked.query), deadline),
            [texts[first::num_parts] for first in range(num_parts)],
            deadline=deadline,
            expected_seconds=COST.beside_loop + len(texts) / num_parts * reranker.seconds,
            receive=request.receive,
        )
        context.searches += (
            SearchTimes.of(each.began, each.queue_seconds, **{Rerank.name: each.result[1]})
            for each in completed
        )
        scores = [0.0] * len(texts)
        for first, each in enumerate(completed):
            scores[first::num_parts] = each.result[0]
        best_first = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
        answer: object
        if asked.texts is not None:
            answer = [
                {"index": place, "score": scores[place]}
                | ({"text": asked.texts[place]} if asked.return_text else {})
                for place in best_first
            ]
        else:
            results = [
                {"index": place, "relevance_score": scores[place]}
                | ({"document": {"text": texts[place]}} if asked.return_documents else {})
                for place in best_first[: asked.top_n]
            ]
            answer = {"results": results, "model": reranker.name}
        return json_response(to_json(answer))

    return router


def _texts_of(given: object) -> object:
    """Documents as texts, or as objects that have one."""
    if not isinstance(given, list):
        return given
    return [each["text"] if isinstance(each, dict) and "text" in each else each for each in given]


def _scores(
    score: Callable[[str], float], deadline: float, texts: Sequence[str]
) -> tuple[list[float], float]:
    """The scores of texts, and the seconds that they took."""
    began, scores = perf_counter(), []
    for text in texts:
        if perf_counter() >= deadline:
            raise DeadlineError("the deadline passed before all texts had a score")
        scores.append(score(text))
    return scores, perf_counter() - began
