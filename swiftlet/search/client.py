"""A running service, searched as an index on this machine is."""

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from swiftlet.arguments import made
from swiftlet.deadline import retry_after_seconds
from swiftlet.errors import InvalidArgumentError, ServiceError, UnknownDocumentError
from swiftlet.extras import extra
from swiftlet.search.request import SearchRequest
from swiftlet.types import Context, Excerpt, Hit, Passage, SearchResult

if TYPE_CHECKING:
    import httpx

_JSON = {"Content-Type": "application/json"}
_UNKNOWN_DOCUMENT = "/docs#unknown-document"
_FIRST_BACKOFF_SECONDS = 0.05
_LAST_BACKOFF_SECONDS = 1.0


class Client:
    """Asks a service over connections that are kept open. Thread-safe.

    A request refused with 429 is repeated after the time of `Retry-After`, as long as the total
    wait is at most `patience_seconds`.
    """

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
        self._client = httpx.Client(
            base_url=address,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=timeout_seconds,
            # One connection for each thread that asks.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
        )
        self._url = str(address)
        self._patience_seconds = patience_seconds

    def search(self, query: str = "", top_k: int = 10, **options: Any) -> SearchResult:
        """The best documents for a query, from POST /search.

        :param options: Further fields of `SearchRequest`, except `group_by`; a field that is None
            is left out.
        :raises InvalidArgumentError: When a field is unknown, or out of its range.
        :raises ServiceError: When the service is out of reach, too busy, or refuses the query.
        """
        checked = made(SearchRequest, "any", top_k=top_k, **options)  # the service checks the query
        if checked.group_by is not None:
            raise InvalidArgumentError("a client finds documents, not groups: leave out group_by")
        if options.get("rerank") is not None:
            options["rerank"] = {"top_n": options["rerank"]}
        asked = {name: value for name, value in options.items() if value is not None}
        if checked.embedding is not None:
            asked["embedding"] = checked.embedding
        if query or checked.embedding is None:
            asked["query"] = query
        # ASCII with escapes: httpx fails on a lone surrogate, the service answers with a reason.
        body = json.dumps({"top_k": top_k, **asked})
        answer = self._request("POST", "/search", content=body, headers=_JSON)
        if answer.status_code != 200:
            raise self._refusal(answer)
        try:
            found = answer.json()
            hits = [_hit(each) for each in found["hits"]]
            context = _context(found["context"]) if "context" in found else None
            generation, num_reranked = str(found["index"]), int(found.get("reranked", 0))
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise self._not_a_service("/search") from error
        return SearchResult(
            hits, (), generation=generation, num_reranked=num_reranked, context=context
        )

    def document(self, document_id: str) -> Mapping[str, Any]:
        """A document as GET /documents/{document_id} gives it.

        :raises UnknownDocumentError: When there is none.
        :raises ServiceError: When the service is out of reach, too busy, or not a Swiftlet service.
        """
        # Escape dots too: an id such as ".." would change the path.
        segment = quote(document_id, safe="", errors="replace").replace(".", "%2E")
        answer = self._request("GET", f"/documents/{segment}")
        kind = f"{_problem(answer).get('type')}" if answer.status_code == 404 else ""
        if kind.endswith(_UNKNOWN_DOCUMENT):  # a prefix may stand before it
            raise UnknownDocumentError(document_id)
        return self._object(answer)

    def info(self) -> Mapping[str, Any]:
        """The encoder, index and limits of the service, from GET /info.

        :raises ServiceError: When the service is out of reach, not ready, or not of Swiftlet.
        """
        return self._object(self._request("GET", "/info"))

    def close(self) -> None:
        """Close the connections; no request may be running."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _request(self, method: str, path: str, **content: Any) -> "httpx.Response":
        import httpx

        waited_seconds, backoff_seconds = 0.0, _FIRST_BACKOFF_SECONDS
        while True:
            try:
                answer = self._client.request(method, path, **content)
            except httpx.TimeoutException as error:
                raise ServiceError(
                    f"the service at {self._url} did not answer {path} in time "
                    f"({error or type(error).__name__})"
                ) from error
            except httpx.HTTPError as error:
                raise ServiceError(
                    f"the service at {self._url} cannot be reached: {error or type(error).__name__}"
                ) from error
            if answer.status_code != 429:
                return answer
            pause_seconds = max(
                retry_after_seconds(answer.headers.get("retry-after", "")), backoff_seconds
            )
            if waited_seconds + pause_seconds > self._patience_seconds:
                raise ServiceError(
                    f"the service at {self._url} is busy: it still answers 429 after "
                    f"{waited_seconds:.1f} s and asks for {pause_seconds:.1f} s more, "
                    f"but at most {self._patience_seconds:g} s are spent waiting"
                )
            time.sleep(pause_seconds)
            waited_seconds += pause_seconds
            backoff_seconds = min(2 * backoff_seconds, _LAST_BACKOFF_SECONDS)

    def _object(self, answer: "httpx.Response") -> Mapping[str, Any]:
        if answer.status_code != 200:
            raise self._refusal(answer)
        try:
            return dict(answer.json())
        except (ValueError, TypeError, RecursionError) as error:
            raise self._not_a_service(answer.request.url.path) from error

    def _refusal(self, answer: "httpx.Response") -> ServiceError:
        problem = _problem(answer)
        if not problem:
            return self._not_a_service(answer.request.url.path, answer.status_code)
        reason = problem.get("detail") or problem.get("title") or "no reason given"
        return ServiceError(f"the service at {self._url} answers {answer.status_code}: {reason}")

    def _not_a_service(self, path: str, status: int | None = None) -> ServiceError:
        answered = "an unknown answer" if status is None else f"the status {status}"
        return ServiceError(
            f"{self._url} is not a Swiftlet service: {path} gave {answered}; check the address"
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
