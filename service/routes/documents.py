"""What the index holds: its documents, their titles and facets, and a description of it."""

import asyncio
from functools import partial
from importlib.metadata import version
from platform import python_version
from time import perf_counter
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import Field
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.live.state import LoadedIndex, ReadyService
from service.wire.answers import (
    DocumentAnswer,
    EncoderAnswer,
    FacetsAnswer,
    IndexAnswer,
    InfoAnswer,
    RefiningAnswer,
    RerankerAnswer,
    SuggestAnswer,
    WeakAnswer,
)
from service.wire.body import JsonRoute
from service.wire.context import STAGES, RequestContext
from service.wire.openapi import problems
from service.wire.problems import DeadlineError, QueueFullError
from service.wire.requests import (
    FilterText,
    Limits,
    LinkModel,
    RequestFields,
    Searchable,
    check_query_string,
)
from service.wire.rights import heeding
from swiftlet.errors import InvalidArgumentError, UnknownDocumentError
from swiftlet.index.columns.columns import Columns
from swiftlet.index.columns.filters import Filter, passing
from swiftlet.index.lexical.titles import TitleIndex
from swiftlet.search.searcher import Searcher

_LINK: dict[str, Any] = {
    "responses": problems(InvalidArgumentError, QueueFullError, DeadlineError),
    "dependencies": [Depends(check_query_string)],
}
"""What all routes with a query string have."""

_LONGEST, _MOST = 200, 20
_SECONDS_TO_HIDE = 0.1

_TITLES, _LONGEST_TITLE, _EXAMPLES = 20, 80, 5

_VERSIONS = {
    "python": python_version(),
    **{
        name: version(name)
        for name in ("swiftlet-retrieval", "faiss-cpu", "onnxruntime", "tokenizers", "fastapi")
    },
}


class _StoredRoute(JsonRoute):
    refuses_overload = False


def documents_router() -> APIRouter:
    """The routes of one application, which may need its key."""
    router = APIRouter(route_class=_StoredRoute)
    router.get(
        "/documents/{document_id:path}",
        response_model=DocumentAnswer,
        responses=problems(UnknownDocumentError, QueueFullError, DeadlineError),
    )(document)
    router.get("/facets", response_model=FacetsAnswer, **_LINK)(facets)
    router.get("/suggest", response_model=SuggestAnswer, **_LINK)(suggest)
    router.get("/weak", responses=problems())(weak)
    router.get("/info", responses=problems())(info)
    return router


class FacetParameters(LinkModel):
    """The query string of `GET /facets`."""

    filter: FilterText = None


class SuggestParameters(LinkModel):
    """The query string of `GET /suggest`."""

    q: Annotated[str, RequestFields(Limits(max_query_chars=_LONGEST)).query, Searchable]
    limit: int = Field(8, ge=1, le=_MOST, description=f"a whole number from 1 to {_MOST}")


async def document(document_id: str, request: Request, service: ReadyService) -> Response:
    """Give a stored document."""
    read = partial(_document, service.state.loaded, heeding(request, None))
    try:
        return await service.answer(request, read, document_id)
    except UnknownDocumentError:
        context: RequestContext = request.state.context
        if context.has_filter:  # how long it took would tell hidden documents from absent ones
            await asyncio.sleep(context.began + _SECONDS_TO_HIDE - perf_counter())
        raise


async def facets(
    asked: Annotated[FacetParameters, Query()], request: Request, service: ReadyService
) -> Response:
    """Count the values of the facets, for all documents or for those that pass a filter."""
    count = partial(_count, service.state.loaded, request.state.context.has_filter)
    return await service.answer(request, count, heeding(request, asked.filter))


async def suggest(
    asked: Annotated[SuggestParameters, Query()], request: Request, service: ReadyService
) -> Response:
    """Give the titles that have the typed words, the last one as a beginning, with typos."""
    titles = await service.state.loaded.suggestions.titles(service.deadline(request))
    return await service.answer(request, partial(_suggest, titles, asked.limit), asked.q)


async def weak(service: ReadyService) -> WeakAnswer:
    """The score in each mode that random words of the index reach, at the default weight."""
    loaded = service.state.loaded
    return WeakAnswer(weak_below=await loaded.weak.of(loaded), index=loaded.generation)


async def info(service: ReadyService) -> InfoAnswer:
    """The index and the encoder in use, and the limits."""
    loaded = service.state.loaded
    searcher = loaded.searcher
    reranker = searcher.reranker
    index, encoder = searcher.index_manifest, searcher.encoder_manifest
    refining = await run_in_threadpool(service.state.refining)
    return InfoAnswer(
        embedding_space=index.embedding_space,
        encoder=EncoderAnswer(
            name=encoder.details.get("name", ""),
            precision=loaded.precision,
            dim=encoder.dim,
            max_tokens=searcher.encoder.max_tokens,
            fingerprint=encoder.fingerprint,
            details=dict(encoder.details),
        ),
        index=IndexAnswer(
            fingerprint=loaded.generation,
            num_documents=searcher.num_documents,
            num_passages=searcher.num_passages,
            modes=list(searcher.modes),
            weight=searcher.weight,
            facets=list(searcher.facet_fields),
            fields=list(searcher.fields),
            examples=await run_in_threadpool(_examples, searcher),
            created_by=index.created_by,
            recall=index.details.get("recall", {}),
            details=dict(index.details),
        ),
        reranker=None
        if reranker is None
        else RerankerAnswer(name=reranker.name, weight=reranker.weight),
        refining=None if refining is None else RefiningAnswer(passages=refining[0], of=refining[1]),
        files=service.has_files,
        feedback=service.log is not None,
        limits=service.limits,
        threads=service.executor.threads,
        stages=list(STAGES),
        versions=_VERSIONS,
    )


def _document(loaded: LoadedIndex, shown: Filter | None, document_id: str) -> bytes:
    found = loaded.searcher.document(document_id)
    if shown is not None and not passing(shown, Columns.of([found.metadata]), 1)[0]:
        raise UnknownDocumentError(document_id)
    answer = {
        "document_id": found.document_id,
        "title": found.title,
        "text": found.text,
        "metadata": found.metadata,
    }
    return to_json(answer, inf_nan_mode="null")


def _count(loaded: LoadedIndex, hides: bool, chosen: Filter | None) -> bytes:
    facets = {
        field: [{"value": value, "count": count} for value, count in values]
        for field, values in loaded.searcher.facets(chosen).items()
        if values or not hides
    }
    return to_json({"facets": facets, "index": loaded.generation})


def _suggest(titles: TitleIndex | None, limit: int, text: str) -> bytes:
    found = [] if titles is None else titles.find(text, limit)
    return to_json({"suggestions": [suggestion._asdict() for suggestion in found]})


def _examples(searcher: Searcher) -> list[str]:
    """Short titles, from all parts of the corpus."""
    titles = dict.fromkeys(map(str.strip, searcher.parts.store.titles(_TITLES).values()))
    short = [title for title in titles if 0 < len(title) <= _LONGEST_TITLE]
    return short[:: -(-len(short) // _EXAMPLES) or 1]
