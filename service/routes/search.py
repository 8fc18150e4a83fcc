"""Searching, for one query and for several."""

import json
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from time import time
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Query, Request
from pydantic_core import to_json
from starlette.responses import Response

from service.admission.cost import COST
from service.live.state import LoadedIndex, QueryCache, Service
from service.wire.answers import BatchAnswer, SearchAnswer
from service.wire.body import JsonRoute, beside_loop, json_response
from service.wire.context import SearchTimes
from service.wire.openapi import problems
from service.wire.problems import (
    DeadlineError,
    InvalidRequestError,
    QueueFullError,
    TooManyQueriesError,
)
from service.wire.refusals import shown
from service.wire.requests import (
    MEBIBYTE,
    Limits,
    SearchFields,
    check_query_string,
    search_model,
)
from service.wire.rights import heeding
from swiftlet.errors import InvalidArgumentError
from swiftlet.search.groups import GroupedResult
from swiftlet.search.request import (
    CONTEXT_DOCUMENTS,
    OPTIONS,
    RequestConflictError,
    SearchRequest,
)
from swiftlet.search.searcher import Searcher
from swiftlet.types import Hit, SearchResult

LARGEST_ANSWER_BYTES = 64 * MEBIBYTE
"""Of the hits of a batch; 10,000 ordinary documents have 6 MB."""

MOST_NUMBERS = 32_768
"""Values of a body over 64 KiB, most of them numbers of embeddings."""

_LONGEST_OFFSET = 9
_RANKING = [name for name, option in OPTIONS.items() if option.ranks]
"""The fields that a cursor holds for, since they decide which documents are found."""

Mixing = Callable[..., tuple[Sequence[Hit], str]]
"""`Challenger.hits`, for one client."""

_REFUSALS = (InvalidArgumentError, QueueFullError, DeadlineError)


class _Found(NamedTuple):
    """The hits of one query, its groups and context as JSON, how many hits, and their generation.

    `num_reranked` documents were scored by the re-ranker.
    `stage_seconds` and `cached` are for metrics, the scores and the teams of documents, where a
    challenger's are among them, for the query log.
    """

    hits: bytes
    groups: bytes
    context: bytes
    num_hits: int
    num_reranked: int
    generation: str
    stage_seconds: tuple[float, ...]
    cached: bool | None
    scores: Sequence[tuple[str, float]]
    teams: str


class _SearchRoute(JsonRoute):
    limit = "max_search_body_bytes"
    most_values = MOST_NUMBERS


class _BatchRoute(JsonRoute):
    most_values = MOST_NUMBERS


def search_router(service: Service) -> APIRouter:
    """The routes of one query."""
    limits = service.limits
    body = search_model("SearchRequest", limits, "The body of `POST /search`.")
    link = search_model(
        "SearchParameters", limits, "The query string of `GET /search`.", of_link=True
    )
    router = APIRouter(route_class=_SearchRoute)

    @router.post("/search", response_model=SearchAnswer, responses=problems(*_REFUSALS, body=True))
    async def search(asked: body, request: Request) -> Response:  # type: ignore[valid-type]
        """Find the documents that answer a query."""
        return await _answer(service, request, asked, "query")

    @router.get(
        "/search",
        response_model=SearchAnswer,
        responses=problems(*_REFUSALS),
        dependencies=[Depends(check_query_string)],
    )
    async def search_by_link(
        asked: Annotated[link, Query()],  # type: ignore[valid-type]
        request: Request,
    ) -> Response:
        """Find the documents that answer a query, from a URL."""
        return await _answer(service, request, asked, "q")

    return router


def batch_router(service: Service) -> APIRouter:
    """The route of several queries."""
    limits = service.limits
    body = search_model("BatchRequest", limits, "The body of `POST /search/batch`.", of_batch=True)
    router = APIRouter(route_class=_BatchRoute)

    @router.post(
        "/search/batch",
        response_model=BatchAnswer,
        responses=problems(*_REFUSALS, TooManyQueriesError, body=True),
    )
    async def search_batch(
        asked: body,  # type: ignore[valid-type]
        request: Request,
    ) -> Response:
        """Answer several queries; each is searched alone."""
        return await _answer_each(service, request, asked)

    return router


async def _answer_each(service: Service, request: Request, asked: SearchFields) -> Response:
    """Answer several queries, the hits of each."""
    limits = service.limits
    wanted = asked.num_queries * asked.top_k
    if wanted > limits.max_batch_hits:
        raise InvalidRequestError(
            "top_k",
            f"top_k is {asked.top_k}, so {asked.num_queries} queries ask for {wanted} "
            f"documents; at most {limits.max_batch_hits} are answered in one batch: ask for "
            "fewer documents, or in several batches",
        )
    searches = await beside_loop(asked.requests)
    loaded, found = await _find_each(service, request, searches, asked.timeout_ms)
    size_bytes = sum(len(each.hits) for each in found)
    if size_bytes > LARGEST_ANSWER_BYTES:
        raise InvalidRequestError(
            "top_k",
            f"the documents that were found have {size_bytes} bytes; at most "
            f"{LARGEST_ANSWER_BYTES} are answered: ask for fewer documents",
        )
    results = b'},{"hits":'.join(each.hits for each in found)
    return json_response(
        b'{"results":[{"hits":%b}],"index":"%b"}' % (results, loaded.generation.encode())
    )


async def _answer(service: Service, request: Request, asked: SearchFields, name: str) -> Response:
    """Answer the query in the field `name`: hits, groups if asked for, a cursor for the rest."""
    limits, search = service.limits, asked.request(getattr(asked, name))
    expected_generation = None
    if search.group_by is not None:
        _check_groups(search, asked.model_fields_set, limits)
    if search.format == "context" and "top_k" not in asked.model_fields_set:
        search = replace(search, top_k=min(CONTEXT_DOCUMENTS, limits.max_top_k))
    if asked.cursor is not None:
        offset, expected_generation = _position(
            search, asked.cursor, limits, service.state.loaded.searcher
        )
        search = replace(search, offset=offset)
    challenger = service.challenger
    mix = None
    if challenger is not None and asked.cursor is None and challenger.takes(search):
        seed = "" if service.log is None else service.log.session(request, time())
        mix = partial(challenger.hits, seed=seed)
    loaded, (found,) = await _find_each(service, request, [search], asked.timeout_ms, mix)
    if expected_generation not in (None, found.generation):
        raise InvalidRequestError(
            "cursor",
            "the index has changed since it gave this cursor: search again without it",
        )
    if service.log is not None:
        name = "" if challenger is None else challenger.name
        service.log.searched(
            request, search, loaded.searcher, found.generation, found.scores, name, found.teams
        )
    parts = [b'"hits":%b' % found.hits]
    headers = {}
    if search.rerank is not None:
        parts.append(b'"reranked":%d' % found.num_reranked)
        headers["x-reranked"] = f"{found.num_reranked}"
    if search.group_by is not None:
        parts.append(b'"groups":%b' % found.groups)
    elif search.format == "context":
        parts.append(b'"context":%b' % found.context)
    elif found.num_hits == search.top_k and search.fusion == "weighted":
        following = search.offset + search.top_k
        if following <= limits.max_offset:
            digest = _digest(search, loaded.searcher)
            cursor = f"{following}.{digest}.{found.generation}"
            parts.append(b'"next":"%b"' % cursor.encode())
    parts.append(b'"index":"%b"' % found.generation.encode())
    return json_response(b"{%b}" % b",".join(parts), headers)


def _digest(asked: SearchRequest, searcher: Searcher) -> str:
    """A few characters that differ for searches that may differ in the order of the documents."""
    return blake2b(searcher.ranking(asked).encode(), digest_size=4).hexdigest()


def _position(
    asked: SearchRequest, cursor: str, limits: Limits, searcher: Searcher
) -> tuple[int, str]:
    """The offset and the generation of a cursor."""
    offset, _, rest = cursor.partition(".")
    digest, _, generation = rest.partition(".")
    for name, value, reason in (
        ("offset", asked.offset, "a cursor has an offset of its own"),
        ("group_by", asked.group_by, "groups have no pages"),
        ("fusion", asked.fusion != "weighted" and asked.fusion, "its ranks have no pages"),
    ):
        if value:
            sentence = f"{name} is {shown(json.dumps(value))}, but {reason}: give either cursor or"
            raise InvalidRequestError("cursor", f"{sentence} {name}")
    if not offset.isdecimal() or len(offset) > _LONGEST_OFFSET or int(offset) > limits.max_offset:
        raise InvalidRequestError(
            "cursor", f"cursor is {shown(json.dumps(cursor))}; the `next` of an answer is expected"
        )
    if digest != _digest(asked, searcher):
        raise InvalidRequestError(
            "cursor",
            f"the cursor is of another search; give it with the {', '.join(_RANKING)} of the "
            "search that gave it",
        )
    return int(offset), generation


def _check_groups(asked: SearchRequest, given: AbstractSet[str], limits: Limits) -> None:
    wanted = asked.top_k * asked.group_size
    if wanted > limits.max_top_k:
        raise InvalidRequestError(
            "group_size" if "group_size" in given else "top_k",
            f"group_size is {asked.group_size}, so {asked.top_k} groups have {wanted} documents; "
            f"at most {limits.max_top_k} are expected: ask for fewer groups, or for smaller ones",
        )


async def _find_each(
    service: Service,
    request: Request,
    searches: Sequence[SearchRequest],
    timeout_ms: int,
    mix: Mixing | None = None,
) -> tuple[LoadedIndex, list[_Found]]:
    """On the event loop: the index that answered, and the hits of searches for several queries.

    :param mix: Puts documents of a challenger among these.
    """
    loaded, context = service.state.loaded, request.state.context
    if context.has_filter:
        searches = [replace(each, filter=heeding(request, each.filter)) for each in searches]
    asked = max(searches, key=lambda each: len(each.query))  # else they are alike
    if asked.rerank is not None and loaded.searcher.reranker is None:
        raise InvalidRequestError(
            "rerank",
            f"rerank asks for {asked.rerank} documents, but this service has no re-ranker: search "
            "without rerank",
        )
    if asked.mode not in (None, *loaded.searcher.modes):
        raise InvalidRequestError(
            "mode", f'mode is "{asked.mode}", but the index has no words; "dense" is expected'
        )
    for number, search in enumerate(searches):
        try:
            loaded.searcher.embedding_of(search)
        except RequestConflictError as error:
            several = {"query": "queries", "embedding": "embeddings"}[error.field]
            field = error.field if len(searches) == 1 else f"{several}[{number}]"
            raise InvalidRequestError(field, f"{error}") from error
    if asked.highlight == "sentence":
        wanted = len(searches) * asked.top_k
        if asked.group_by is not None:
            wanted *= asked.group_size
        if wanted > COST.most_sentences:
            raise InvalidRequestError(
                "highlight",
                f'highlight is "sentence" and {wanted} documents are asked for; at most '
                f"{COST.most_sentences} are highlighted in one request: ask for fewer, or for "
                '"words"',
            )
    deadline = context.began + timeout_ms / 1000
    # Shared, it would tell a client by its time what was asked of documents that it must not see.
    cache = None if context.has_filter else loaded.cache
    expected_seconds, grace_seconds = COST.of(asked, loaded.searcher)
    completed = await service.executor.map(
        partial(_find_on_thread, loaded, cache, deadline, mix),
        searches,
        deadline=deadline + grace_seconds,
        expected_seconds=expected_seconds,
        receive=request.receive,
    )
    for each in completed:
        found, waited = each.result, each.queue_seconds
        times = SearchTimes(each.began - waited, (waited, *found.stage_seconds), found.cached)
        context.searches.append(times)
    return loaded, [each.result for each in completed]


def _find_on_thread(
    loaded: LoadedIndex,
    cache: QueryCache | None,
    deadline: float,
    mix: Mixing | None,
    asked: SearchRequest,
) -> _Found:
    """On a thread of the executor: search, and write the hits as JSON."""
    found: SearchResult | GroupedResult
    hits: Sequence[Hit]
    groups = context = b""
    teams, num_reranked = "", 0
    if asked.group_by is not None:
        found = loaded.searcher.search_groups(asked, deadline=deadline, cache=cache)
        hits = [group.hits[0] for group in found.groups]
        listed = (
            b'{"value":%b,"hits":%b}'
            % (to_json(group.value, inf_nan_mode="null"), _written(group.hits, asked))
            for group in found.groups
        )
        groups = b"[%b]" % b",".join(listed)
    else:
        found = loaded.searcher.search(asked, deadline=deadline, cache=cache)
        hits, num_reranked = found.hits, found.num_reranked
        if mix is not None:
            hits, teams = mix(loaded.searcher, asked, hits, deadline=deadline)
        if found.context is not None:
            context = to_json(found.context)
    is_uncached = cache is None or asked.mode == "lexical" or asked.embedding is not None
    is_uncached = is_uncached or not loaded.searcher.has_encoder
    return _Found(
        _written(hits, asked),
        groups,
        context,
        len(hits),
        num_reranked,
        found.generation,
        found.stage_seconds,
        None if is_uncached else found.cached,
        [(hit.document_id, hit.score) for hit in hits],
        teams,
    )


def _written(hits: Sequence[Hit], asked: SearchRequest) -> bytes:
    """Hits as JSON, one at a time, since writing holds the interpreter lock."""
    # JSON has no NaN: one in a document's metadata must not make the answer invalid.
    written = (to_json(_hit_fields(hit, asked), inf_nan_mode="null") for hit in hits)
    return b"[%b]" % b",".join(written)


def _hit_fields(hit: Hit, asked: SearchRequest) -> dict[str, Any]:
    passage: dict[str, Any] = {
        "passage_id": hit.passage.passage_id,
        "start": hit.passage.start,
        "end": hit.passage.end,
    }
    if hit.passage.heading:
        passage["heading"] = hit.passage.heading
    if asked.include_text:
        passage["text"] = hit.passage.text
    if asked.highlight is not None:
        passage["highlights"] = hit.highlights
    fields = {
        "document_id": hit.document_id,
        "score": hit.score,
        "title": hit.title,
        "passage": passage,
        "metadata": hit.metadata,
    }
    if hit.boosted_score is not None:
        fields["boosted_score"] = hit.boosted_score
    if asked.rerank is not None:
        fields["rerank_score"] = hit.rerank_score
    return fields
