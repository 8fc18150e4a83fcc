"""Embeddings of texts, asked for and answered as OpenAI's clients do."""

from base64 import b64encode
from functools import partial
from time import perf_counter
from typing import NamedTuple

import numpy as np
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from retrieval.types import Embeddings
from service.observation import SearchTimes, observation_of
from service.problems import InvalidRequestError
from service.reading import RequestReader
from service.schemas import EmbeddingRequest, Limits
from service.state import ServiceState, Serving
from service.workers import Finished, Workers


class _Encoded(NamedTuple):
    embedding: Embeddings
    num_tokens: int
    tokenise_seconds: float
    encode_seconds: float


class EmbeddingRoutes:
    """The one endpoint of OpenAI's that this service has."""

    def __init__(self, state: ServiceState, limits: Limits, workers: Workers) -> None:
        self.read = RequestReader(EmbeddingRequest, limits)
        self._state = state
        self._timeout_seconds = limits.timeout_ms / 1000
        self._workers = workers

    async def embeddings(self, request: Request) -> Response:
        """Embed texts with the query encoder, as OpenAI's route of this name does."""
        self._state.check()
        asked = await self.read.from_body(request)
        serving = self._state.serving
        searcher = serving.searcher
        if asked.dimensions not in (None, searcher.encoder.dim):
            raise InvalidRequestError(
                "dimensions",
                f"dimensions is {asked.dimensions}; {searcher.encoder.dim} or nothing is expected, "
                "since embeddings are not shortened",
            )
        observation = observation_of(request.scope)
        finished = await self._workers.run_each(
            partial(_encode, serving),
            asked.input,
            deadline=observation.started + self._timeout_seconds,
            receive=request.receive,
        )
        observation.searches += map(_times, finished)
        as_base64 = asked.encoding_format == "base64"
        num_tokens = sum(each.result.num_tokens for each in finished)
        answer = {
            "object": "list",
            "data": [
                {
                    "object": "embedding",
                    "index": index,
                    "embedding": _written(each.result.embedding, as_base64=as_base64),
                }
                for index, each in enumerate(finished)
            ],
            "model": searcher.encoder_manifest.details.get("name", ""),
            "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
        }
        return Response(to_json(answer), media_type="application/json")


def _encode(serving: Serving, text: str) -> _Encoded:
    encoder = serving.searcher.encoder
    began = perf_counter()
    token_ids = encoder.tokenise(text)
    tokenised = perf_counter()
    embedding = encoder.embed(token_ids)
    encoded = perf_counter()
    return _Encoded(embedding, len(token_ids), tokenised - began, encoded - tokenised)


def _times(finished: Finished[_Encoded]) -> SearchTimes:
    result = finished.result
    return SearchTimes(
        finished.began - finished.queue_seconds,
        (finished.queue_seconds, result.tokenise_seconds, result.encode_seconds, 0.0, 0.0, 0.0),
    )


def _written(embedding: Embeddings, *, as_base64: bool) -> list[float] | str:
    if as_base64:
        return b64encode(embedding.astype(np.dtype("<f4")).tobytes()).decode()
    numbers: list[float] = embedding.tolist()
    return numbers
