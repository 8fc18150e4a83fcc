"""Searches of an index on this machine or of a service, for the retrievers of other programs."""

import json
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import swiftlet
from swiftlet.errors import ServiceError
from swiftlet.search.searcher import Searcher

Place = str | Path | Searcher
"""An index directory, its address on a server, the http:// address of a service, or an open
searcher."""

_TIMEOUT_SECONDS = 30.0


class Found(NamedTuple):
    """The best passage of a document that was found; `about` has title, heading and metadata."""

    document_id: str
    text: str
    score: float
    about: dict[str, Any]


class Finder(Protocol):
    """Searches one place."""

    def find(
        self, query: str, top_k: int, conditions: Mapping[str, Any] | None, mode: str | None
    ) -> list[Found]:
        """The `top_k` best documents, or as many as pass the filter.

        :raises RetrievalError: When the search is refused, or the service is away.
        """
        ...


def finder(place: Place, key: str = "") -> Finder:
    """What searches a place.

    :param key: The search key of a service that asks for one.
    :raises RetrievalError: When an index cannot be opened. A service is asked when it is searched.
    """
    if isinstance(place, Searcher):
        return _Index(place)
    if str(place).startswith(("http://", "https://")):
        return _Service(str(place).rstrip("/"), key)
    return _Index(swiftlet.open(place))


class _Index:
    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher

    def find(
        self, query: str, top_k: int, conditions: Mapping[str, Any] | None, mode: Any
    ) -> list[Found]:
        found = self._searcher.search(query, top_k, filter=conditions, mode=mode)
        return [
            Found(
                hit.document_id,
                hit.passage.text,
                hit.score,
                _about(hit.title, hit.passage.heading, hit.metadata),
            )
            for hit in found.hits
        ]


class _Service:
    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    def find(
        self, query: str, top_k: int, conditions: Mapping[str, Any] | None, mode: str | None
    ) -> list[Found]:
        asked = {"query": query, "top_k": top_k, "filter": conditions, "mode": mode}
        content = json.dumps({name: each for name, each in asked.items() if each is not None})
        request = Request(f"{self._url}/search", content.encode(), self._headers)  # noqa: S310
        try:
            with urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
                hits = json.load(answer)["hits"]
        except HTTPError as error:
            raise ServiceError(
                f"the service at {self._url} answers {error.code}: {_detail(error)}"
            ) from error
        except (OSError, HTTPException) as error:
            raise ServiceError(
                f"the service at {self._url} cannot be reached: {getattr(error, 'reason', error)}"
            ) from error
        except (ValueError, LookupError, TypeError) as error:
            raise ServiceError(
                f"{self._url} is not a Swiftlet service: check the address"
            ) from error
        return [
            Found(
                hit["document_id"],
                hit["passage"]["text"],
                hit["score"],
                _about(hit["title"], hit["passage"].get("heading", ""), hit.get("metadata", {})),
            )
            for hit in hits
        ]


def _about(title: str, heading: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    places = {"title": title, "heading": heading}
    return {**metadata, **{name: text for name, text in places.items() if text}}


def _detail(error: HTTPError) -> str:
    """What a problem of RFC 9457 says, or else the status."""
    try:
        return str(json.load(error)["detail"])
    except (ValueError, LookupError, TypeError, OSError):
        return str(error.reason)
