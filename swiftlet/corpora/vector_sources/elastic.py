"""An index of Elasticsearch or OpenSearch, read by its scroll API."""

import base64
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from itertools import islice
from threading import Timer
from time import perf_counter
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from swiftlet.corpora.fields import Fields
from swiftlet.corpora.vector_sources.columns import named
from swiftlet.corpora.vector_sources.place import Place
from swiftlet.corpora.vector_sources.source import (
    ROWS_AT_ONCE,
    Pairs,
    Source,
    chosen,
    of_pairs,
)
from swiftlet.corpora.vectors import Metric
from swiftlet.errors import CollectionError, shown

ANSWER_SECONDS = 60
"""The time for an answer of the server."""

LARGEST_ANSWER = 1 << 27
"""The most bytes of an answer."""

_PIECE_BYTES = 1 << 16
_REFUSAL_BYTES = 1 << 14
_REDIRECTS = range(300, 400)
_KEPT = "10m"
_KINDS = ("dense_vector", "knn_vector")
_METRICS: dict[str, Metric] = {
    "cosine": "cosine", "cosinesimil": "cosine",
    "dot_product": "inner_product", "max_inner_product": "inner_product",
    "innerproduct": "inner_product", "l2_norm": "l2", "l2": "l2",
}  # fmt: skip


def open_elastic(place: Place, vector_field: str | None, fields: Fields | None) -> Source:
    """The documents of an index, with "_id" and the fields of their source.

    The address is `elasticsearch://HOST:PORT/INDEX` or `opensearch://…`, with TLS
    `elasticsearch+https://…`.

    :raises CollectionError: When the server does not answer or refuses, or there are several fields
        of vectors of which `vector_field` names none.
    """
    index = f"/{quote(place.path, safe='')}"
    body: dict[str, Any] = {"size": ROWS_AT_ONCE, "sort": ["_doc"]}
    with _as_expected(place):
        mappings = [each["mappings"] for each in _ask(place, f"{index}/_mapping").values()]
        kinds = {name: kind for each in mappings for name, kind in _vectors(each)}
        field = chosen(place.name, "field", [*kinds], vector_field)
        metric = _METRICS.get(kinds[field])
        count = int(_ask(place, f"{index}/_count")["count"])
        version = _ask(place, "/").get("version", {})
        numbers = [int(each) for each in version.get("number", "0.0").split(".")[:2]]
    if "distribution" not in version and numbers >= [9, 2]:  # its answers leave vectors out
        body["_source"] = {"exclude_vectors": False}

    def hits() -> Iterator[dict[str, Any]]:
        answer = _ask(place, f"{index}/_search?scroll={_KEPT}&preference=swiftlet", body)
        scroll = {"scroll_id": answer["_scroll_id"]}
        try:
            while found := answer["hits"]["hits"]:
                yield from found
                answer = _ask(place, "/_search/scroll", {"scroll": _KEPT, **scroll})
                scroll["scroll_id"] = answer.get("_scroll_id", scroll["scroll_id"])
        finally:
            with suppress(CollectionError):  # the server forgets it by itself, only later
                _ask(place, "/_search/scroll", scroll, method="DELETE")

    def pairs(first: int) -> Pairs:
        with _as_expected(place):
            for number, hit in enumerate(islice(hits(), first, None), first):
                row = {"_id": hit["_id"], **hit["_source"]}
                yield named(place.name, number, row, fields), _taken(row, field)

    return of_pairs(place.name, pairs, metric=metric, num_rows=count)


def _vectors(mapping: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """The names of fields with vectors, and the metric of each."""
    for name, kind in mapping.get("properties", {}).items():
        if kind.get("type") in _KINDS:
            method = kind.get("method", {})
            yield f"{above}{name}", kind.get("similarity") or method.get("space_type", "")
        elif kind.get("type", "object") == "object":
            yield from _vectors(kind, f"{above}{name}.")


def _taken(row: dict[str, Any], field: str) -> Any:
    """The vector at a path of names, which is removed from its document."""
    *above, name = field.split(".")
    inner: Any = row
    for each in above:
        inner = inner.get(each, {}) if isinstance(inner, dict) else {}
    return inner.pop(name, None) if isinstance(inner, dict) else None


@contextmanager
def _as_expected(place: Place) -> Iterator[None]:
    """Turn what breaks on an answer of another form into a sentence about the server."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise CollectionError(
            place.name,
            "the server does not answer as Elasticsearch and OpenSearch do: "
            "elasticsearch://HOST:PORT/INDEX is the address of one",
        ) from None


class _Answer(HTTPResponse):
    """An answer whose connection ends when it is due: each byte prolongs the usual time."""

    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self._timer = Timer(ANSWER_SECONDS, _end, [sock])
        self._timer.daemon = True
        self._timer.start()

    def close(self) -> None:
        self._timer.cancel()
        super().close()


def _end(connection: socket.socket) -> None:
    with suppress(OSError):  # it ended by itself
        connection.shutdown(socket.SHUT_RDWR)


def _timed(kind: type[HTTPConnection]) -> Callable[..., HTTPConnection]:
    def connection(*arguments: Any, **options: Any) -> HTTPConnection:
        made = kind(*arguments, **options)
        made.response_class = _Answer
        return made

    return connection


class _Http(HTTPHandler):
    def http_open(self, request: Request) -> HTTPResponse:
        return self.do_open(_timed(HTTPConnection), request)


class _Https(HTTPSHandler):
    def https_open(self, request: Request) -> HTTPResponse:
        return self.do_open(_timed(HTTPSConnection), request)


# Without redirects, which would take the password to another host, and without other schemes.
_HANDLERS = (ProxyHandler, _Http, _Https, HTTPErrorProcessor, HTTPDefaultErrorHandler)


def _ask(
    place: Place, path: str, body: Mapping[str, Any] | None = None, method: str | None = None
) -> Any:
    """The answer of the server, as JSON.

    :raises CollectionError: When it does not answer in time, refuses, sends to another address, or
        answers something else or more than `LARGEST_ANSWER`.
    """
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if token := place.token:
        coded = base64.b64encode(token.encode()).decode()
        headers["Authorization"] = f"Basic {coded}" if ":" in token else f"ApiKey {token}"
    url = f"http{'s' * place.encrypted}://{place.host}{path}"
    content = None if body is None else json.dumps(body).encode()
    request = Request(url, content, headers, method=method)  # noqa: S310 - of two schemes
    opener = OpenerDirector()
    for handler in _HANDLERS:
        opener.add_handler(handler())
    due = perf_counter() + ANSWER_SECONDS
    try:
        with place.reading(ValueError, RecursionError, HTTPException):
            try:
                with opener.open(request, timeout=ANSWER_SECONDS) as answer:
                    return json.loads(_content(place, answer))
            except HTTPError as error:
                with error:
                    raise _refusal(place, path.partition("?")[0], error) from None
    except CollectionError:
        if perf_counter() < due:
            raise
        raise CollectionError(
            place.name, f"the server has not answered within {ANSWER_SECONDS} s"
        ) from None


def _content(place: Place, answer: HTTPResponse) -> bytearray:
    content = bytearray()
    while piece := answer.read1(_PIECE_BYTES):
        content += piece
        if len(content) > LARGEST_ANSWER:
            raise CollectionError(
                place.name, f"the server answers with more than {LARGEST_ANSWER:,} bytes"
            )
    return content


def _refusal(place: Place, path: str, error: HTTPError) -> CollectionError:
    if error.code in _REDIRECTS:
        address = shown(place.hidden(error.headers.get("Location", "")))
        return CollectionError(
            place.name,
            f"the server answers {path} with {error.code}, which sends on to {address}: name the "
            "address that answers itself",
        )
    said = error.read(_REFUSAL_BYTES).decode("utf-8", "replace")
    with suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
        reasons = json.loads(said)["error"]
        said = ": ".join(reasons[name] for name in ("type", "reason") if name in reasons) or said
    return CollectionError(
        place.name, f"the server refuses {path}: {error.code} {shown(place.hidden(said))}"
    )
