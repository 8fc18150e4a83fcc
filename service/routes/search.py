"""Searching, for one query and for several."""

import json
from collections.abc import Mapping
from functools import partial
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Query, Request
from pydantic import Field
from pydantic_core import to_json
from starlette.responses import Response

from service.admission.executor import Completed
from service.live.state import LoadedIndex, Service
from service.wire.body import json_route
from service.wire.context import SearchTimes
from service.wire.limits import Limits
from service.wire.openapi import problems
from service.wire.problems import (
    DeadlineError,
    InvalidRequestError,
    QueueFullError,
    TooManyQueriesError,
)
from service.wire.schemas import (
    JSON_TEXT,
    BatchAnswer,
    FilterText,
    LinkModel,
    QueryOptions,
    RequestFields,
    RequestModel,
    Rerank,
    Searchable,
    SearchAnswer,
    SearchOptions,
)
from service.wire.validation import shown
from swiftlet.arguments import check_fusion
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.columns.filters import Every
from swiftlet.index.columns.grouping import GroupedResult
from swiftlet.search.searcher import Searcher
from swiftlet.types import Hit, SearchResult

_SECONDS_PER_HIT = 0.00005
"""The approximate time that each further document of an answer takes."""

_LONGEST_OFFSET = 9
_SEARCHES_PER_GROUP = 2
_MOST_SENTENCES = 50
_SECONDS_PER_SENTENCE = 0.003
"""The approximate time that finding the nearest sentence of a passage takes."""

_REFUSALS = (InvalidArgumentError, QueueFullError, DeadlineError)


class _Found(NamedTuple):
    """The hits of one query and its groups as JSON, how many hits there are, and their generation.

    `num_reranked` documents were scored by the re-ranker.
    `stage_seconds` and `cached` are for metrics.
    """

    hits: bytes
    groups: bytes
    num_hits: int
    num_reranked: int
    generation: str
    stage_seconds: tuple[float, ...]
    cached: bool | None


# A pair may take longer than expected. The search that was found is then answered so much later.
_SECONDS_FOR_THE_LAST_PAIR = 0.05


def search_router(service: Service) -> APIRouter:
    """The routes of one query."""
    limits = service.limits
    fields = RequestFields(limits)

    class Body(RequestModel):
        query: Annotated[str, fields.query, Searchable]

    class BoundedRerank(Rerank):
        """What a re-ranker orders."""

        top_n: Annotated[int, fields.top_n]

    reranking = Field(
        None,
        description='null or {"top_n": 20}, with the number of documents that a re-ranker orders, '
        f"from 1 to {limits.max_reranked},",
    )

    class Link(LinkModel):
        q: Annotated[str, fields.query, Searchable]

    # The fields of the last base come first.
    class SearchRequest(QueryOptions, Body):
        """The body of `POST /search`."""

        rerank: BoundedRerank | None = reranking
        group_size: Annotated[int, fields.group_size] = 3
        top_k: Annotated[int, fields.top_k] = fields.default_top_k
        offset: Annotated[int, fields.offset] = 0
        timeout_ms: Annotated[int, fields.timeout_ms] = limits.timeout_ms

    class SearchParameters(QueryOptions, Link):
        """The query string of `GET /search`."""

        filter: FilterText = None
        rerank: Annotated[BoundedRerank | None, JSON_TEXT] = reranking
        group_size: Annotated[int, fields.group_size] = 3
        top_k: Annotated[int, fields.top_k] = fields.default_top_k
        offset: Annotated[int, fields.offset] = 0
        timeout_ms: Annotated[int, fields.timeout_ms] = limits.timeout_ms

    router = APIRouter(
        route_class=json_route(
            max_bytes=min(limits.max_search_body_bytes, limits.max_body_bytes),
            timeout_ms=limits.body_timeout_ms,
        )
    )

    @router.post("/search", response_model=SearchAnswer, responses=problems(*_REFUSALS, body=True))
    async def search(asked: SearchRequest, request: Request) -> Response:
        """Find the documents that answer a query."""
        return await _answer(service, request, asked.query, asked)

    @router.get(
        "/search",
        response_model=SearchAnswer,
        responses=problems(*_REFUSALS),
        dependencies=[Depends(check_query_string)],
    )
    async def search_by_link(
        asked: Annotated[SearchParameters, Query()], request: Request
    ) -> Response:
        """Find the documents that answer a query, from a URL."""
        return await _answer(service, request, asked.q, asked)

    return router


def batch_router(service: Service) -> APIRouter:
    """The route of several queries."""
    limits = service.limits
    fields = RequestFields(limits)

    class Body(RequestModel):
        queries: Annotated[list[Annotated[str, fields.query, Searchable]], fields.queries]

    class BatchRequest(SearchOptions, Body):
        """The body of `POST /search/batch`."""

        top_k: Annotated[int, fields.top_k] = fields.default_top_k
        offset: Annotated[int, fields.offset] = 0
        timeout_ms: Annotated[int, fields.timeout_ms] = limits.timeout_ms

    router = APIRouter(
        route_class=json_route(max_bytes=limits.max_body_bytes, timeout_ms=limits.body_timeout_ms)
    )

    @router.post(
        "/search/batch",
        response_model=BatchAnswer,
        responses=problems(*_REFUSALS, TooManyQueriesError, body=True),
    )
    async def search_batch(asked: BatchRequest, request: Request) -> Response:
        """Answer several queries; each is searched alone."""
        wanted = len(asked.queries) * asked.top_k
        if wanted > limits.max_batch_hits:
            raise InvalidRequestError(
                "top_k",
                f"top_k is {asked.top_k}, so {len(asked.queries)} queries ask for {wanted} "
                f"documents; at most {limits.max_batch_hits} are answered in one batch: ask for "
                "fewer documents, or in several batches",
            )
        loaded, found = await _find_each(service, request, asked.queries, asked)
        results = b",".join(b'{"hits":%b}' % each.hits for each in found)
        return _json(b'{"results":[%b],"index":"%b"}' % (results, loaded.generation.encode()))

    return router


async def _answer(service: Service, request: Request, query: str, asked: QueryOptions) -> Response:
    """Answer one query: the hits, the groups if they are asked for, and a cursor for the rest."""
    limits = service.limits
    expected_generation = None
    if asked.group_by is not None:
        _check_groups(asked, limits)
    if asked.cursor is not None:
        offset, expected_generation = _position(query, asked, limits, service.loaded.searcher)
        asked = asked.model_copy(update={"offset": offset})
    _, (found,) = await _find_each(service, request, [query], asked)
    if expected_generation not in (None, found.generation):
        raise InvalidRequestError(
            "cursor",
            "the index has changed since it gave this cursor: search again without it",
        )
    parts = [b'"hits":%b' % found.hits]
    headers = {}
    if asked.rerank is not None:
        parts.append(b'"reranked":%d' % found.num_reranked)
        headers["x-reranked"] = f"{found.num_reranked}"
    if asked.group_by is not None:
        parts.append(b'"groups":%b' % found.groups)
    elif found.num_hits == asked.top_k and asked.fusion == "weighted":
        following = asked.offset + asked.top_k
        if following <= limits.max_offset:
            digest = _digest(query, asked, service.loaded.searcher)
            cursor = f"{following}.{digest}.{found.generation}"
            parts.append(b'"next":"%b"' % cursor.encode())
    parts.append(b'"index":"%b"' % found.generation.encode())
    return _json(b"{%b}" % b",".join(parts), headers)


def _digest(query: str, asked: QueryOptions, searcher: Searcher) -> str:
    """A few characters that differ for searches that may differ in the order of the documents."""
    mode, weight = asked.mode or searcher.modes[0], None
    if mode == "hybrid":
        weight = searcher.weight if asked.weight is None else asked.weight
    search = query, mode, weight, asked.filter or Every(()), asked.min_score, asked.rerank
    return blake2b(repr(search).encode(), digest_size=4).hexdigest()


def _position(
    query: str, asked: QueryOptions, limits: Limits, searcher: Searcher
) -> tuple[int, str]:
    """The offset and the generation of a cursor."""
    offset, _, rest = (asked.cursor or "").partition(".")
    digest, _, generation = rest.partition(".")
    others = {
        "offset": asked.offset,
        "group_by": asked.group_by is not None,
        'fusion "rrf"': asked.fusion == "rrf",
    }
    if given := [name for name, is_given in others.items() if is_given]:
        raise InvalidRequestError("cursor", f"give either cursor or {given[0]}")
    if not offset.isdecimal() or len(offset) > _LONGEST_OFFSET or int(offset) > limits.max_offset:
        raise InvalidRequestError(
            "cursor",
            f"cursor is {shown(json.dumps(asked.cursor))}; the `next` of an answer is expected",
        )
    if digest != _digest(query, asked, searcher):
        raise InvalidRequestError(
            "cursor",
            "the cursor is of another search; give it with the query, mode, weight, filter, "
            "min_score and rerank of the search that gave it",
        )
    return int(offset), generation


def _check_groups(asked: QueryOptions, limits: Limits) -> None:
    wanted = asked.top_k * asked.group_size
    if wanted > limits.max_top_k:
        raise InvalidRequestError(
            "group_size" if "group_size" in asked.model_fields_set else "top_k",
            f"group_size is {asked.group_size}, so {asked.top_k} groups have {wanted} documents; "
            f"at most {limits.max_top_k} are expected: ask for fewer groups, or for smaller ones",
        )
    for name, given in (("offset", asked.offset), ("rerank", asked.rerank)):
        if given:
            raise InvalidRequestError(name, f"give either {name} or group_by")


async def check_query_string(request: Request) -> None:
    """Refuse query strings that FastAPI would misread.

    :raises InvalidRequestError: When a parameter is repeated, or not valid UTF-8.
    """
    try:
        pairs = parse_qsl(
            request.scope["query_string"].decode(), keep_blank_values=True, errors="strict"
        )
    except ValueError:
        raise InvalidRequestError("", "the query string is not valid UTF-8") from None
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise InvalidRequestError(name, f"{shown(name)} is given more than once")
        seen.add(name)


async def _find_each(
    service: Service, request: Request, queries: list[str], options: SearchOptions
) -> tuple[LoadedIndex, list[_Found]]:
    """The index that answered, and the hits of each query."""
    loaded, context = service.loaded, request.state.context
    expected_seconds = (options.offset + options.top_k) * _SECONDS_PER_HIT
    expected_seconds += loaded.searcher.parts.waiting_seconds
    if isinstance(options, QueryOptions) and options.group_by is not None:
        expected_seconds *= _SEARCHES_PER_GROUP * options.group_size
    try:
        check_fusion(options.fusion, options.weight, options.offset)
    except InvalidArgumentError as error:
        raise InvalidRequestError("fusion", str(error)) from error
    if options.highlight is not None and not options.include_text:
        raise InvalidRequestError(
            "highlight",
            f'highlight is "{options.highlight}", but passages without their text have nothing to '
            "mark: ask for include_text true, or for no highlight",
        )
    if options.highlight == "sentence":
        wanted = len(queries) * options.top_k
        if isinstance(options, QueryOptions) and options.group_by is not None:
            wanted *= options.group_size
        if wanted > _MOST_SENTENCES:
            raise InvalidRequestError(
                "highlight",
                f'highlight is "sentence" and {wanted} documents are asked for; at most '
                f'{_MOST_SENTENCES} are highlighted in one request: ask for fewer, or for "words"',
            )
        expected_seconds += options.top_k * _SECONDS_PER_SENTENCE
    latest = deadline = context.began + options.timeout_ms / 1000
    reranker = loaded.searcher.reranker
    if isinstance(options, QueryOptions) and options.rerank and reranker is not None:
        expected_seconds += options.rerank.top_n * reranker.seconds
        latest += _SECONDS_FOR_THE_LAST_PAIR
    completed = await service.executor.map(
        partial(_find, loaded, options, deadline),
        queries,
        deadline=latest,
        expected_seconds=expected_seconds,
        receive=request.receive,
    )
    context.searches += map(_times, completed)
    return loaded, [each.result for each in completed]


def _find(loaded: LoadedIndex, options: SearchOptions, deadline: float, query: str) -> _Found:
    fields: dict[str, Any] = {
        "mode": options.mode,
        "weight": options.weight,
        "fusion": options.fusion,
        "filter": options.filter,
        "min_score": options.min_score,
        "include_text": options.include_text,
        "highlight": options.highlight,
        "cache": loaded.cache,
        "deadline": deadline,
    }
    found: SearchResult | GroupedResult
    groups, num_reranked = b"", 0
    if isinstance(options, QueryOptions) and options.group_by is not None:
        found = loaded.searcher.search_groups(
            query,
            options.top_k,
            group_by=options.group_by,
            group_size=options.group_size,
            **fields,
        )
        hits = [group.hits[0] for group in found.groups]
        listed = [
            {"value": group.value, "hits": [_hit_fields(hit, options) for hit in group.hits]}
            for group in found.groups
        ]
        groups = to_json(listed, inf_nan_mode="null")
    else:
        if isinstance(options, QueryOptions) and options.rerank is not None:
            fields["rerank"] = options.rerank.top_n
        found = loaded.searcher.search(query, options.top_k, offset=options.offset, **fields)
        hits, num_reranked = found.hits, found.num_reranked
    return _Found(
        # JSON has no NaN: one in a document's metadata must not make the answer invalid.
        to_json([_hit_fields(hit, options) for hit in hits], inf_nan_mode="null"),
        groups,
        len(hits),
        num_reranked,
        found.generation,
        found.stage_seconds,
        None if loaded.cache is None or options.mode == "lexical" else found.cached,
    )


def _times(completed: Completed[_Found]) -> SearchTimes:
    found, waited = completed.result, completed.queue_seconds
    return SearchTimes(completed.began - waited, (waited, *found.stage_seconds), found.cached)


def _hit_fields(hit: Hit, options: SearchOptions) -> dict[str, Any]:
    passage: dict[str, Any] = {
        "passage_id": hit.passage.passage_id,
        "start": hit.passage.start,
        "end": hit.passage.end,
    }
    if hit.passage.heading:
        passage["heading"] = hit.passage.heading
    if options.include_text:
        passage["text"] = hit.passage.text
    if options.highlight is not None:
        passage["highlights"] = hit.highlights
    fields = {
        "document_id": hit.document_id,
        "score": hit.score,
        "title": hit.title,
        "passage": passage,
        "metadata": hit.metadata,
    }
    if isinstance(options, QueryOptions) and options.rerank is not None:
        fields["rerank_score"] = hit.rerank_score
    return fields


def _json(content: bytes, headers: Mapping[str, str] | None = None) -> Response:
    # FastAPI passes it on: docs/results/service-ablation.md has the cost of response models.
    return Response(content, media_type="application/json", headers=headers)
