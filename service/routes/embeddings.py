"""Embeddings of texts, with requests and answers in OpenAI's format."""

from base64 import b64encode
from functools import partial
from time import perf_counter
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from fastapi import APIRouter, Request
from pydantic import BeforeValidator, Field
from pydantic_core import to_json
from starlette.responses import Response

from service.admission.executor import Completed
from service.live.state import LoadedIndex, Service
from service.wire.body import json_route
from service.wire.context import STAGES, SearchTimes
from service.wire.openapi import problems
from service.wire.problems import (
    DeadlineError,
    InvalidRequestError,
    QueueFullError,
    TooManyQueriesError,
)
from service.wire.schemas import (
    EmbeddingsAnswer,
    ModelAnswer,
    ModelsAnswer,
    RequestFields,
    RequestModel,
    Searchable,
)
from swiftlet.encoders.encoder import OnnxEncoder, Role
from swiftlet.errors import InvalidArgumentError
from swiftlet.search.stages.query import Encode, Tokenise
from swiftlet.types import Embeddings


class _Encoded(NamedTuple):
    embedding: Embeddings
    num_tokens: int
    tokenise_seconds: float
    encode_seconds: float


def embeddings_router(service: Service) -> APIRouter:
    """The routes of OpenAI's that this service has."""
    limits = service.limits
    fields = RequestFields(limits)
    text = Annotated[str, fields.query, Searchable]
    texts = Annotated[list[text], fields.queries]

    class EmbeddingRequest(RequestModel):
        """The body of `POST /v1/embeddings`."""

        input: Annotated[
            list[Annotated[str, fields.query, Searchable]],
            fields.queries,
            BeforeValidator(_listed, json_schema_input_type=text | texts),
            Field(description=f"a text, or a list of 1 to {limits.max_batch_queries} texts"),
        ]
        model: str = Field("", description="any text, which is ignored")
        encoding_format: Literal["float", "base64"] = Field("float", description="float or base64")
        input_type: Literal["query", "passage", "document"] = Field(
            "query",
            description="what the texts are, for an encoder with prompts: query or passage "
            "(document is the same)",
        )
        dimensions: int | None = Field(None, description="the dimensions of the encoder, or null")
        user: str = Field("", description="any text, which is ignored")

    router = APIRouter(
        route_class=json_route(max_bytes=limits.max_body_bytes, timeout_ms=limits.body_timeout_ms)
    )

    @router.post(
        "/v1/embeddings",
        response_model=EmbeddingsAnswer,
        responses=problems(
            InvalidArgumentError, TooManyQueriesError, QueueFullError, DeadlineError, body=True
        ),
    )
    async def embeddings(asked: EmbeddingRequest, request: Request) -> Response:
        """Embed texts with the query encoder, as OpenAI's route of this name does."""
        loaded, context = service.loaded, request.state.context
        dim = loaded.searcher.encoder.dim
        if asked.dimensions not in (None, dim):
            raise InvalidRequestError(
                "dimensions",
                f"dimensions is {asked.dimensions}; {dim} is expected, or none: embeddings are not "
                "shortened",
            )
        completed = await service.executor.map(
            partial(_encode, loaded, "query" if asked.input_type == "query" else "passage"),
            asked.input,
            deadline=context.began + limits.timeout_ms / 1000,
            receive=request.receive,
        )
        context.searches += map(_times, completed)
        return Response(
            to_json(_answer(loaded, completed, as_base64=asked.encoding_format == "base64")),
            media_type="application/json",
        )

    @router.get("/v1/models", responses=problems())
    async def models() -> ModelsAnswer:
        """The one model that `/v1/embeddings` has, as OpenAI's route of this name lists models."""
        name = service.loaded.searcher.encoder_manifest.details.get("name", "")
        return ModelsAnswer(data=[ModelAnswer(id=name)])

    return router


def _listed(given: object) -> object:
    return [given] if isinstance(given, str) else given


def _encode(loaded: LoadedIndex, role: Role, text: str) -> _Encoded:
    encoder = loaded.searcher.encoder
    if role == "passage" and isinstance(encoder, OnnxEncoder):
        encoder = encoder.reading(role)
    began = perf_counter()
    token_ids = encoder.tokenise(text)
    tokenised = perf_counter()
    embedding = encoder.embed(token_ids)
    return _Encoded(embedding, len(token_ids), tokenised - began, perf_counter() - tokenised)


def _times(completed: Completed[_Encoded]) -> SearchTimes:
    seconds = {
        "queue": completed.queue_seconds,
        Tokenise.name: completed.result.tokenise_seconds,
        Encode.name: completed.result.encode_seconds,
    }
    return SearchTimes(
        completed.began - completed.queue_seconds,
        tuple(seconds.get(stage, 0.0) for stage in STAGES),
    )


def _answer(
    loaded: LoadedIndex, completed: list[Completed[_Encoded]], *, as_base64: bool
) -> dict[str, Any]:
    num_tokens = sum(each.result.num_tokens for each in completed)
    return {
        "object": "list",
        "data": [
            {
                "object": "embedding",
                "index": index,
                "embedding": _written(each.result.embedding, as_base64=as_base64),
            }
            for index, each in enumerate(completed)
        ],
        "model": loaded.searcher.encoder_manifest.details.get("name", ""),
        "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
    }


def _written(embedding: Embeddings, *, as_base64: bool) -> list[float] | str:
    if as_base64:
        return b64encode(embedding.astype(np.dtype("<f4")).tobytes()).decode()
    numbers: list[float] = embedding.tolist()
    return numbers
