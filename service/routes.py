"""What each route does."""

from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from operator import attrgetter
from platform import python_version
from typing import Any, NamedTuple

from prometheus_client.exposition import choose_encoder
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from retrieval.searcher import StageTimes
from retrieval.types import Hit
from service.metrics import Metrics
from service.observation import SEARCHER_STAGES, SearchTimes, observation_of
from service.reading import RequestReader
from service.schemas import (
    BatchRequest,
    Limits,
    SearchParameters,
    SearchRequest,
)
from service.state import ServiceState, Serving
from service.workers import Finished, Workers

_NAMED_VERSIONS = ("swiftlet-retrieval", "faiss-cpu", "onnxruntime", "tokenizers", "fastapi")


_seconds_of_stages = attrgetter(*SEARCHER_STAGES)


class _Answer(NamedTuple):
    """The hits of one query as JSON, where its time went, and whether the cache had it."""

    hits: bytes
    stage_seconds: StageTimes
    cached: bool | None


class Routes:
    """The endpoints of one service, each from a request to a response.

    Answers are put together as bytes here: the tests hold them against their schema, which costs
    no request anything.
    """

    def __init__(
        self, state: ServiceState, limits: Limits, workers: Workers, metrics: Metrics
    ) -> None:
        self.read_search = RequestReader(SearchRequest, limits)
        self.read_parameters = RequestReader(SearchParameters, limits)
        self.read_batch = RequestReader(BatchRequest, limits)
        self._state = state
        self._limits = limits
        self._workers = workers
        self._metrics = metrics
        self._versions = {
            "python": python_version(),
            **{name: version(name) for name in _NAMED_VERSIONS},
        }

    async def search(self, request: Request) -> Response:
        """Find the documents that answer a query."""
        self._state.check()
        asked = await self.read_search.from_body(request)
        return await self._search(request, asked.query, asked)

    async def search_by_link(self, request: Request) -> Response:
        """Find the documents that answer a query, asked for by an address alone."""
        self._state.check()
        asked = self.read_parameters.from_query_string(request)
        return await self._search(request, asked.q, asked)

    async def search_batch(self, request: Request) -> Response:
        """Answer several queries, each of which is searched alone."""
        self._state.check()
        asked = await self.read_batch.from_body(request)
        serving = self._state.serving
        found = await self._run_each(
            request,
            partial(_search, serving, asked.top_k, asked.include_text),
            asked.queries,
            asked.timeout_ms,
        )
        results = b",".join(b'{"hits":%b}' % each.hits for each in found)
        return _json(b'{"results":[%b],"index":"%b"}' % (results, serving.index.encode()))

    async def document(self, request: Request) -> Response:
        """Give a stored document."""
        self._state.check()
        found = await self._workers.run(
            partial(_document, self._state.serving),
            request.path_params["document_id"],
            deadline=observation_of(request.scope).started + self._limits.timeout_ms / 1000,
            receive=request.receive,
        )
        return _json(found.result)

    async def info(self, request: Request) -> Response:  # noqa: ARG002
        """Say which index and encoder are at work, and within which limits."""
        self._state.check()
        serving = self._state.serving
        index, encoder = serving.searcher.index_manifest, serving.searcher.encoder_manifest
        return _json(
            _dump(
                {
                    "embedding_space": index.embedding_space,
                    "encoder": {
                        "name": encoder.details.get("name", ""),
                        "precision": serving.precision,
                        "dim": encoder.dim,
                        "max_tokens": serving.searcher.encoder.max_tokens,
                        "fingerprint": encoder.fingerprint,
                        "details": encoder.details,
                    },
                    "index": {
                        "fingerprint": serving.index,
                        "num_documents": serving.searcher.num_documents,
                        "num_passages": serving.searcher.num_passages,
                        "created_by": index.created_by,
                        "recall": index.details.get("recall", {}),
                        "details": index.details,
                    },
                    "limits": self._limits,
                    "threads": self._workers.threads,
                    "versions": self._versions,
                }
            )
        )

    async def live(self, request: Request) -> Response:  # noqa: ARG002
        """Say that the process is alive."""
        return _json(b'{"status":"alive"}')

    async def ready(self, request: Request) -> Response:  # noqa: ARG002
        """Say whether searches are answered."""
        self._state.check()
        return _json(b'{"status":"ready"}')

    async def metrics(self, request: Request) -> Response:
        """Give the figures that Prometheus collects."""
        if self._state.current is not None:
            self._metrics.describe(self._state.current)
        self._metrics.queue_depth.set(self._workers.queued)
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._metrics.registry), media_type=media_type)

    async def _search(
        self, request: Request, query: str, asked: SearchRequest | SearchParameters
    ) -> Response:
        serving = self._state.serving
        (found,) = await self._run_each(
            request,
            partial(_search, serving, asked.top_k, asked.include_text),
            [query],
            asked.timeout_ms,
        )
        return _json(b'{"hits":%b,"index":"%b"}' % (found.hits, serving.index.encode()))

    async def _run_each(
        self,
        request: Request,
        search: Callable[[str], _Answer],
        queries: list[str],
        timeout_ms: int,
    ) -> list[_Answer]:
        observation = observation_of(request.scope)
        finished = await self._workers.run_each(
            search,
            queries,
            deadline=observation.started + timeout_ms / 1000,
            receive=request.receive,
        )
        observation.searches += map(_times, finished)
        return [each.result for each in finished]


def _search(serving: Serving, top_k: int, include_text: bool, query: str) -> _Answer:
    found = serving.searcher.search(query, top_k, include_text=include_text, cache=serving.cache)
    hits = [_hit_fields(hit, include_text=include_text) for hit in found.hits]
    return _Answer(
        _dump(hits), found.stage_seconds, None if serving.cache is None else found.cached
    )


def _document(serving: Serving, document_id: str) -> bytes:
    document = serving.searcher.document(document_id)
    return _dump(
        {
            "document_id": document.document_id,
            "title": document.title,
            "text": document.text,
            "metadata": document.metadata,
        }
    )


def _times(finished: Finished[_Answer]) -> SearchTimes:
    result = finished.result
    return SearchTimes(
        finished.began - finished.queue_seconds,
        (finished.queue_seconds, *_seconds_of_stages(result.stage_seconds)),
        result.cached,
    )


def _hit_fields(hit: Hit, *, include_text: bool) -> dict[str, Any]:
    passage: dict[str, Any] = {
        "passage_id": hit.passage.passage_id,
        "start": hit.passage.start,
        "end": hit.passage.end,
    }
    if include_text:
        passage["text"] = hit.passage.text
    return {
        "document_id": hit.document_id,
        "score": hit.score,
        "title": hit.title,
        "passage": passage,
        "metadata": hit.metadata,
    }


def _dump(value: object) -> bytes:
    # JSON has no NaN: one in a document's metadata must not spoil the answer.
    return to_json(value, inf_nan_mode="null")


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")
