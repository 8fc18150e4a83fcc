"""Embeddings of texts, with requests and answers in OpenAI's format."""

from base64 import b64encode
from functools import partial
from time import perf_counter
from typing import Annotated, Literal, NamedTuple

import numpy as np
from fastapi import APIRouter, Request
from pydantic import BeforeValidator, Field
from pydantic_core import to_json
from starlette.responses import Response

from service.admission.cost import COST
from service.admission.executor import Completed
from service.live.state import LoadedIndex, Service
from service.wire.answers import EmbeddingsAnswer, ModelAnswer, ModelsAnswer
from service.wire.body import JsonRoute, json_response
from service.wire.context import SearchTimes
from service.wire.openapi import problems
from service.wire.problems import (
    DeadlineError,
    InvalidRequestError,
    QueueFullError,
    TooManyQueriesError,
)
from service.wire.requests import RequestFields, RequestModel
from swiftlet.deadline import due_at
from swiftlet.encoders.encoder import OnnxEncoder, Role
from swiftlet.encoders.function import FunctionEncoder
from swiftlet.encoders.missing import NO_MODEL
from swiftlet.errors import InvalidArgumentError, QueryError
from swiftlet.search.stages.query import Encode, Tokenise
from swiftlet.text import check_query

_TOKENS = "these are token numbers of another model's tokenizer; texts are expected"


class _EmbeddingsRoute(JsonRoute):
    remedy = "texts are expected, and no token numbers"


class _Encoded(NamedTuple):
    """An embedding as JSON, the tokens of its text, and the seconds of each stage."""

    item: bytes
    num_tokens: int
    seconds: dict[str, float]


def embeddings_router(service: Service) -> APIRouter:
    """The routes of OpenAI's that this service has."""
    limits = service.limits
    text = Annotated[str, RequestFields(limits).query]
    most = Field(min_length=1, max_length=limits.max_embeddings)

    class EmbeddingRequest(RequestModel):
        """The body of `POST /v1/embeddings`; clients of OpenAI's send null for absent fields."""

        input: Annotated[
            list[text],
            most,
            BeforeValidator(_listed, json_schema_input_type=text | Annotated[list[text], most]),
            Field(description=f"a text, or a list of 1 to {limits.max_embeddings} texts"),
        ]
        model: str | None = Field(None, description="a text, which is ignored,")
        encoding_format: Literal["float", "base64"] | None = Field(
            "float", description="float or base64"
        )
        input_type: Literal["query", "passage", "document"] | None = Field(
            "query",
            description="what the texts are, for an encoder with prompts: query or passage "
            "(document is the same)",
        )
        dimensions: int | None = Field(None, description="the dimensions of the encoder, or null")
        user: str | None = Field(None, description="a text, which is ignored,")

    router = APIRouter(route_class=_EmbeddingsRoute)

    @router.post(
        "/v1/embeddings",
        response_model=EmbeddingsAnswer,
        responses=problems(
            InvalidArgumentError, TooManyQueriesError, QueueFullError, DeadlineError, body=True
        ),
    )
    async def embeddings(asked: EmbeddingRequest, request: Request) -> Response:
        """Embed texts with the query encoder, as OpenAI's route of this name does."""
        loaded, context = service.state.loaded, request.state.context
        if not loaded.searcher.has_encoder:
            raise InvalidArgumentError(NO_MODEL)
        dim = loaded.searcher.encoder.dim
        if asked.dimensions not in (None, dim):
            raise InvalidRequestError(
                "dimensions",
                f"dimensions is {asked.dimensions}; {dim} is expected, or none: embeddings are not "
                "shortened",
            )
        role: Role = "query" if asked.input_type in (None, "query") else "passage"
        texts, size, began = [*enumerate(asked.input)], limits.max_batch_queries, context.began
        completed: list[Completed[_Encoded]] = []
        # A piece takes the places of one batch in the queue, and has the time of one.
        longest = max(map(len, asked.input))
        for first in range(0, len(texts), size):
            deadline = began + limits.timeout_ms / 1000
            as_base64 = asked.encoding_format == "base64"
            encode = partial(_encode, loaded, role, as_base64, deadline)
            completed += await service.executor.map(
                encode,
                texts[first : first + size],
                deadline=deadline,
                expected_seconds=longest * COST.per_character + loaded.searcher.waiting_seconds,
                receive=request.receive,
            )
            began = perf_counter()
        encoded = [each.result for each in completed]
        context.searches += (
            SearchTimes.of(each.began, each.queue_seconds, **each.result.seconds)
            for each in completed
        )
        num_tokens = sum(each.num_tokens for each in encoded)
        head = {
            "object": "list",
            "model": _model(loaded),
            "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
        }
        items = b",".join(each.item for each in encoded)
        return json_response(b'%b,"data":[%b]}' % (to_json(head)[:-1], items))

    @router.get("/v1/models", responses=problems())
    async def models() -> ModelsAnswer:
        """The one model that `/v1/embeddings` has, as OpenAI's route of this name lists models."""
        loaded = service.state.loaded
        has_encoder = loaded.searcher.has_encoder
        return ModelsAnswer(data=[ModelAnswer(id=_model(loaded))] if has_encoder else [])

    return router


def _model(loaded: LoadedIndex) -> str:
    name: str = loaded.searcher.encoder_manifest.details.get("name", "")
    return name


def _listed(given: object) -> object:
    if isinstance(given, list) and type(next(iter(given), None)) in (int, list):
        raise ValueError(_TOKENS)
    return [given] if isinstance(given, str) else given


def _encode(
    loaded: LoadedIndex, role: Role, as_base64: bool, deadline: float, numbered: tuple[int, str]
) -> _Encoded:
    """On a thread of the executor: check a text, encode it, and write its embedding as JSON."""
    number, text = numbered
    encoder = loaded.searcher.encoder
    if role == "passage" and isinstance(encoder, OnnxEncoder | FunctionEncoder):
        encoder = encoder.reading(role)
    began = perf_counter()
    try:
        token_ids = encoder.tokenise(check_query(text))
    except QueryError as error:
        raise InvalidRequestError(f"input[{number}]", f"input[{number}]: {error}") from error
    tokenised = perf_counter()
    with due_at(deadline):
        embedding = encoder.embed(token_ids)
    encoding_seconds = perf_counter() - tokenised
    written: object = embedding.tolist()
    if as_base64:
        written = b64encode(embedding.astype(np.dtype("<f4")).tobytes()).decode()
    return _Encoded(
        to_json({"object": "embedding", "index": number, "embedding": written}),
        len(token_ids),
        {Tokenise.name: tokenised - began, Encode.name: encoding_seconds},
    )
