"""A running service, searched as an index on this machine is."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

from swiftlet.arguments import made, whole_number
from swiftlet.deadline import retry_after_seconds
from swiftlet.errors import InvalidArgumentError, ServiceError, UnknownDocumentError
from swiftlet.extras import extra
from swiftlet.search.request import SearchRequest
from swiftlet.types import Context, Excerpt, Hit, Passage, SearchResult

if TYPE_CHECKING:
    import httpx

Result = TypeVar("Result")

_Step = float | tuple[str, str, dict[str, Any]]
_Talk = Generator[_Step, Any, Result]

_JSON = {"Content-Type": "application/json"}
_UNKNOWN_DOCUMENT = "/docs#unknown-document"
_FIRST_BACKOFF_SECONDS = 0.05
_LAST_BACKOFF_SECONDS = 1.0
_BATCH = 64


class _Exchange:
    """What requests to a service ask, and what its answers mean, however they are sent.

    A conversation is a generator. It yields what to send (method, path, content), and gets the
    answer or the error; or it yields the seconds to wait. Its value is the result.
    """

    _kind: str
    """The client of httpx that sends."""

    def __init__(
        self,
        url: str,
        key: str = "",
        *,
        timeout_seconds: float = 30.0,
        patience_seconds: float = 60.0,
    ) -> None:
        """Name the service at `url`, such as http://localhost:8000, and its search key, if any.

        :raises InvalidArgumentError: When `url` is not an HTTP address.
        :raises MissingExtraError: When httpx is not installed.
        """
        with extra("client"):
            import httpx
        try:
            address = httpx.URL(f"{url}".rstrip("/"))
        except httpx.InvalidURL as error:
            raise InvalidArgumentError(f"{url!r} is not a URL: {error}") from error
        if address.scheme not in {"http", "https"} or not address.host:
            raise InvalidArgumentError(
                f"{url!r} is not the address of a service: http://HOST:PORT is expected"
            )
        self._client: Any = getattr(httpx, self._kind)(
            base_url=address,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=timeout_seconds,
            # One connection for each thread or task that asks.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
        )
        self._url = str(address)
        self._patience_seconds = patience_seconds

    def _search(self, query: str, top_k: int, options: dict[str, Any]) -> "_Talk[SearchResult]":
        asked = _asked(top_k, options)
        if query or "embedding" not in asked:
            asked["query"] = query
        found = yield from self._object("POST", "/search", content=_json(asked), headers=_JSON)
        with self._reading("/search"):
            return _result(found, str(found["index"]))

    def _search_batch(
        self, queries: Sequence[str], top_k: int, options: dict[str, Any]
    ) -> "_Talk[list[SearchResult]]":
        asked = _asked(top_k, options) | {"queries": list(queries)}
        path = "/search/batch"
        found = yield from self._object("POST", path, content=_json(asked), headers=_JSON)
        with self._reading(path):
            results = [_result(each, str(found["index"])) for each in found["results"]]
        if len(results) != len(queries):
            raise self._not_a_service(path)
        return results

    def _document(self, document_id: str) -> "_Talk[Mapping[str, Any]]":
        # Escape dots too: an id such as ".." would change the path.
        segment = quote(document_id, safe="", errors="replace").replace(".", "%2E")
        answer = yield from self._request("GET", f"/documents/{segment}")
        kind = f"{_problem(answer).get('type')}" if answer.status_code == 404 else ""
        if kind.endswith(_UNKNOWN_DOCUMENT):  # a prefix may stand before it
            raise UnknownDocumentError(document_id)
        return self._read(answer)

    def _object(self, method: str, path: str, **content: Any) -> "_Talk[Mapping[str, Any]]":
        return self._read((yield from self._request(method, path, **content)))

    def _request(self, method: str, path: str, **content: Any) -> "_Talk[httpx.Response]":
        import httpx

        waited_seconds, backoff_seconds = 0.0, _FIRST_BACKOFF_SECONDS
        while True:
            answer = yield method, path, content
            if isinstance(answer, httpx.HTTPError):
                reason = answer or type(answer).__name__
                failed = f"cannot be reached: {reason}"
                if isinstance(answer, httpx.TimeoutException):
                    failed = f"did not answer {path} in time ({reason})"
                raise ServiceError(f"the service at {self._url} {failed}") from answer
            if answer.status_code != 429:
                found: httpx.Response = answer
                return found
            pause_seconds = max(
                retry_after_seconds(answer.headers.get("retry-after", "")), backoff_seconds
            )
            if waited_seconds + pause_seconds > self._patience_seconds:
                raise ServiceError(
                    f"the service at {self._url} is busy: it still answers 429 after "
                    f"{waited_seconds:.1f} s and asks for {pause_seconds:.1f} s more, "
                    f"but at most {self._patience_seconds:g} s are spent waiting"
                )
            yield pause_seconds
            waited_seconds += pause_seconds
            backoff_seconds = min(2 * backoff_seconds, _LAST_BACKOFF_SECONDS)

    def _read(self, answer: "httpx.Response") -> Mapping[str, Any]:
        path = answer.request.url.path
        if answer.status_code == 200:
            with self._reading(path):
                return dict(answer.json())
        problem = _problem(answer)
        if not problem:
            raise self._not_a_service(path, answer.status_code)
        reason = problem.get("detail") or problem.get("title") or "no reason given"
        raise ServiceError(f"the service at {self._url} answers {answer.status_code}: {reason}")

    @contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise self._not_a_service(path) from error

    def _not_a_service(self, path: str, status: int | None = None) -> ServiceError:
        answered = "an unknown answer" if status is None else f"the status {status}"
        return ServiceError(
            f"{self._url} is not a Swiftlet service: {path} gave {answered}; check the address"
        )


class Client(_Exchange):
    """Asks a service over connections that are kept open. Thread-safe.

    A request refused with 429 is repeated after the time of `Retry-After`, as long as the total
    wait is at most `patience_seconds`.
    """

    _kind = "Client"

    def search(self, query: str = "", top_k: int = 10, **options: Any) -> SearchResult:
        """The best documents for a query, from POST /search.

        :param options: Further fields of `SearchRequest`, except `group_by`; a field that is None
            is left out.
        :raises InvalidArgumentError: When a field is unknown, or out of its range.
        :raises ServiceError: When the service is out of reach, too busy, or refuses the query.
        """
        return self._run(self._search(query, top_k, options))

    def search_batch(
        self, queries: Iterable[str], top_k: int = 10, size: int = _BATCH, **options: Any
    ) -> Iterator[SearchResult]:
        """The same for each of many queries, in their order, `size` in one POST /search/batch.

        :raises ServiceError: As `search`.
        """
        for some in _batches(queries, size):
            yield from self._run(self._search_batch(some, top_k, options))

    def document(self, document_id: str) -> Mapping[str, Any]:
        """A document as GET /documents/{document_id} gives it.

        :raises UnknownDocumentError: When there is none.
        :raises ServiceError: When the service is out of reach, too busy, or not a Swiftlet service.
        """
        return self._run(self._document(document_id))

    def info(self) -> Mapping[str, Any]:
        """The encoder, index and limits of the service, from GET /info.

        :raises ServiceError: When the service is out of reach, not ready, or not of Swiftlet.
        """
        return self._run(self._object("GET", "/info"))

    def close(self) -> None:
        """Close the connections; no request may be running."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _run(self, talk: "_Talk[Result]") -> Result:
        reply = None
        while True:
            try:
                step = talk.send(reply)
            except StopIteration as end:
                found: Result = end.value
                return found
            reply = self._done(step)

    def _done(self, step: "_Step") -> "httpx.Response | Exception | None":
        import httpx

        if isinstance(step, float):
            time.sleep(step)
            return None
        method, path, content = step
        try:
            answer: httpx.Response = self._client.request(method, path, **content)
        except httpx.HTTPError as error:
            return error
        return answer


class AsyncClient(_Exchange):
    """A `Client` for event loops: the same methods, to be awaited."""

    _kind = "AsyncClient"

    async def search(self, query: str = "", top_k: int = 10, **options: Any) -> SearchResult:
        """The best documents for a query; arguments and errors as `Client.search`."""
        return await self._run(self._search(query, top_k, options))

    async def search_batch(
        self, queries: Iterable[str], top_k: int = 10, size: int = _BATCH, **options: Any
    ) -> AsyncIterator[SearchResult]:
        """The same for each of many queries, as `Client.search_batch`."""
        for some in _batches(queries, size):
            for result in await self._run(self._search_batch(some, top_k, options)):
                yield result

    async def document(self, document_id: str) -> Mapping[str, Any]:
        """A document; errors as `Client.document`."""
        return await self._run(self._document(document_id))

    async def info(self) -> Mapping[str, Any]:
        """The encoder, index and limits of the service; errors as `Client.info`."""
        return await self._run(self._object("GET", "/info"))

    async def close(self) -> None:
        """Close the connections; no request may be running."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def _run(self, talk: "_Talk[Result]") -> Result:
        reply = None
        while True:
            try:
                step = talk.send(reply)
            except StopIteration as end:
                found: Result = end.value
                return found
            reply = await self._done(step)

    async def _done(self, step: "_Step") -> "httpx.Response | Exception | None":
        import httpx

        if isinstance(step, float):
            await asyncio.sleep(step)
            return None
        method, path, content = step
        try:
            answer: httpx.Response = await self._client.request(method, path, **content)
        except httpx.HTTPError as error:
            return error
        return answer


def _asked(top_k: int, options: dict[str, Any]) -> dict[str, Any]:
    """The fields of a search that are given, for its body."""
    checked = made(SearchRequest, "any", top_k=top_k, **options)  # the service checks the query
    if checked.group_by is not None:
        raise InvalidArgumentError("a client finds documents, not groups: leave out group_by")
    asked = {name: value for name, value in options.items() if value is not None}
    if checked.rerank is not None:
        asked["rerank"] = {"top_n": checked.rerank}
    if checked.embedding is not None:
        asked["embedding"] = checked.embedding
    return {"top_k": top_k, **asked}


def _batches(queries: Iterable[str], size: int) -> Iterator[list[str]]:
    remaining, size = iter(queries), whole_number("size", size, least=1)
    while some := list(islice(remaining, size)):
        yield some


def _json(asked: Mapping[str, Any]) -> str:
    # ASCII with escapes: httpx fails on a lone surrogate, the service answers with a reason.
    return json.dumps(asked)


def _result(found: Mapping[str, Any], generation: str) -> SearchResult:
    return SearchResult(
        [_hit(each) for each in found["hits"]],
        (),
        generation=generation,
        num_reranked=int(found.get("reranked", 0)),
        context=_context(found["context"]) if "context" in found else None,
    )


def _context(fields: Mapping[str, Any]) -> Context:
    excerpts = [Excerpt(**each) for each in fields["excerpts"]]
    return Context(str(fields["text"]), excerpts, int(fields["num_tokens"]))


def _hit(fields: Mapping[str, Any]) -> Hit:
    """A hit as the service writes it."""
    document_id, passage = str(fields["document_id"]), fields["passage"]
    return Hit(
        document_id,
        float(fields["score"]),
        fields["title"],
        Passage(
            passage["passage_id"],
            document_id,
            passage.get("text", ""),
            passage["start"],
            passage["end"],
            passage.get("heading", ""),
        ),
        fields["metadata"],
        tuple(map(tuple, passage.get("highlights", ()))),
        fields.get("rerank_score"),
        fields.get("boosted_score"),
    )


def _problem(answer: "httpx.Response") -> dict[str, Any]:
    """The RFC 9457 problem in `answer`; empty if it has none."""
    if not answer.headers.get("content-type", "").startswith("application/problem+json"):
        return {}
    try:
        problem = answer.json()
    except (ValueError, RecursionError):
        return {}
    return problem if isinstance(problem, dict) else {}
