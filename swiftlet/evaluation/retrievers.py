"""Retrievers for an evaluation: a searcher in this process, or a running service."""

import json
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import quote

from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import InvalidArgumentError, UnknownDocumentError
from swiftlet.evaluation.errors import ServiceError
from swiftlet.extras import extra
from swiftlet.index.documents.passages import encoder_text

if TYPE_CHECKING:
    import httpx

    from swiftlet.search.searcher import Searcher

_JSON = {"Content-Type": "application/json"}
_UNKNOWN_DOCUMENT = "/docs#unknown-document"
_PATIENCE_SECONDS = 60.0
_FIRST_BACKOFF_SECONDS = 0.05
_LAST_BACKOFF_SECONDS = 1.0


class Retriever(Protocol):
    """Finds documents. Thread-safe."""

    def retrieve(self, query: str, top_k: int) -> list[tuple[str, float]]:
        """(document_id, score) of at most `top_k` documents, best first."""
        ...

    def holds(self, document_id: str) -> bool:
        """Whether the document is in the index."""
        ...


def by_rank(found: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Documents scored by 1 / rank: metrics read scores, and a re-ranker's order differs."""
    return [(document_id, 1 / rank) for rank, (document_id, _) in enumerate(found, start=1)]


class SearcherRetriever:
    """Finds documents with a searcher in this process."""

    def __init__(self, searcher: "Searcher", **fields: Any) -> None:
        """Search with `fields`, further arguments of `Searcher.search`."""
        self._searcher = searcher
        self._fields = fields

    def retrieve(self, query: str, top_k: int) -> list[tuple[str, float]]:
        """(document_id, score) of the min(top_k, number of documents) best documents.

        :raises QueryError: When the query cannot be searched.
        """
        found = self._searcher.search(query, top_k, include_text=False, **self._fields)
        scores = [(hit.document_id, hit.score) for hit in found.hits]
        return by_rank(scores) if found.num_reranked else scores

    def holds(self, document_id: str) -> bool:
        """Whether the index has the document."""
        try:
            self._searcher.document(document_id)
        except UnknownDocumentError:
            return False
        return True

    def num_tokens(self, document_id: str) -> int:
        """The tokens of a whole document, with its title, by the tokenizer of the query encoder.

        :raises UnknownDocumentError: When the index does not have it.
        """
        document = self._searcher.document(document_id)
        encoder = self._searcher.encoder
        if not isinstance(encoder, OnnxEncoder):
            raise InvalidArgumentError("lengths in tokens need an encoder with a tokenizer")
        return encoder.tokenizer.count(encoder_text(document.title, document.text))


class ServiceRetriever:
    """Finds documents with a running service, over connections that are kept open.

    A request refused with 429 is repeated after the time of `Retry-After`, as long as the total
    wait is at most `patience_seconds`.
    """

    def __init__(
        self,
        client: "httpx.Client",
        *,
        patience_seconds: float = _PATIENCE_SECONDS,
        **fields: Any,
    ) -> None:
        """Send requests by `client`, with the service as its base URL; `close` closes it.

        `fields` are further fields of each search.
        """
        self._client = client
        self._fields = fields
        self._url = str(client.base_url).rstrip("/")
        self._patience_seconds = patience_seconds

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        timeout_seconds: float = 30.0,
        patience_seconds: float = _PATIENCE_SECONDS,
        **fields: Any,
    ) -> Self:
        """Connect to the service at `url`, such as http://localhost:8000, and check it is ready.

        :raises InvalidArgumentError: When `url` is not an HTTP address.
        :raises ServiceError: When no Swiftlet service answers there, or it is not ready.
        """
        with extra("evaluation"):
            import httpx
        try:
            address = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise InvalidArgumentError(f"{url!r} is not a URL: {error}") from error
        if address.scheme not in {"http", "https"} or not address.host:
            raise InvalidArgumentError(
                f"{url!r} is not the address of a service: http://HOST:PORT is expected"
            )
        client = httpx.Client(
            base_url=address,
            timeout=timeout_seconds,
            # One connection per evaluating thread.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
        )
        retriever = cls(client, patience_seconds=patience_seconds, **fields)
        try:
            retriever.info()
        except ServiceError:
            retriever.close()
            raise
        return retriever

    def retrieve(self, query: str, top_k: int) -> list[tuple[str, float]]:
        """(document_id, score) of the best documents, from POST /search.

        :raises ServiceError: When the service is out of reach, too busy, or refuses the query.
        """
        # ASCII with escapes: httpx fails on a lone surrogate, the service answers with a reason.
        asked = {"query": query, "top_k": top_k, "include_text": False, **self._fields}
        body = json.dumps(asked)
        answer = self._request("POST", "/search", content=body, headers=_JSON)
        if answer.status_code != 200:
            raise self._refusal(answer)
        try:
            found = answer.json()
            scores = [(str(hit["document_id"]), float(hit["score"])) for hit in found["hits"]]
            return by_rank(scores) if found.get("reranked") else scores
        except (ValueError, TypeError, KeyError) as error:
            raise self._not_a_service("/search") from error

    def holds(self, document_id: str) -> bool:
        """Whether GET /documents/{document_id} finds the document.

        :raises ServiceError: When the service is out of reach, too busy, or not a Swiftlet service.
        """
        # Escape dots too: an id such as ".." would change the path.
        segment = quote(document_id, safe="", errors="replace").replace(".", "%2E")
        answer = self._request("GET", f"/documents/{segment}")
        if answer.status_code == 404 and _problem(answer).get("type") == _UNKNOWN_DOCUMENT:
            return False
        if answer.status_code != 200:
            raise self._refusal(answer)
        return True

    def info(self) -> Mapping[str, Any]:
        """The encoder, index and limits of the service, from GET /info.

        :raises ServiceError: When the service is out of reach, not ready, or not of Swiftlet.
        """
        answer = self._request("GET", "/info")
        if answer.status_code != 200:
            raise self._refusal(answer)
        try:
            return dict(answer.json())
        except (ValueError, TypeError) as error:
            raise self._not_a_service("/info") from error

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
            pause_seconds = max(_retry_after_seconds(answer), backoff_seconds)
            if waited_seconds + pause_seconds > self._patience_seconds:
                raise ServiceError(
                    f"the service at {self._url} is busy: it still answers 429 after "
                    f"{waited_seconds:.1f} s and asks for {pause_seconds:.1f} s more, "
                    f"but at most {self._patience_seconds:g} s are spent waiting"
                )
            time.sleep(pause_seconds)
            waited_seconds += pause_seconds
            backoff_seconds = min(2 * backoff_seconds, _LAST_BACKOFF_SECONDS)

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


def _problem(answer: "httpx.Response") -> dict[str, Any]:
    """The RFC 9457 problem in `answer`; empty if it has none."""
    if not answer.headers.get("content-type", "").startswith("application/problem+json"):
        return {}
    try:
        problem = answer.json()
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def _retry_after_seconds(answer: "httpx.Response") -> float:
    """The time of `Retry-After`, in seconds or as a date; 0 if it is missing or malformed."""
    text = answer.headers.get("retry-after", "")
    try:
        return (
            float(text) if text.isdigit() else parsedate_to_datetime(text).timestamp() - time.time()
        )
    except ValueError:
        return 0.0
