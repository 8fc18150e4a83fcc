"""An index of Elasticsearch or OpenSearch, read by its scroll API."""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from time import perf_counter
from typing import Any
from urllib.parse import quote

from swiftlet.corpora.fields import Fields
from swiftlet.corpora.vector_sources.place import Place
from swiftlet.corpora.vector_sources.source import ROWS_AT_ONCE, Pairs, Source, chosen, of_pairs
from swiftlet.corpora.vectors import Metric
from swiftlet.deadline import Answer, AnswerError, Exchanges
from swiftlet.errors import CollectionError, shown

ANSWER_SECONDS = 60
"""The time for an answer of the server."""

LARGEST_ANSWER = 1 << 27
"""The most bytes of an answer."""

_REFUSAL_BYTES = 1 << 14
_TAKEN, _REDIRECTS = range(200, 300), range(300, 400)
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
    :raises MissingExtraError: When httpx is not installed.
    """
    index, ask = f"/{quote(place.path, safe='')}", _Server(place)
    body: dict[str, Any] = {"size": ROWS_AT_ONCE, "sort": ["_doc"]}
    with _as_expected(place):
        mappings = [each["mappings"] for each in ask(f"{index}/_mapping").values()]
        kinds = {name: kind for each in mappings for name, kind in _vectors(each)}
        field = chosen(place.name, "field", [*kinds], vector_field)
        metric = _METRICS.get(kinds[field])
        count = int(ask(f"{index}/_count")["count"])
        version = ask("/").get("version", {})
        numbers = [int(each) for each in version.get("number", "0.0").split(".")[:2]]
    if "distribution" not in version and numbers >= [9, 2]:  # its answers leave vectors out
        body["_source"] = {"exclude_vectors": False}

    def hits() -> Iterator[dict[str, Any]]:
        answer = ask(f"{index}/_search?scroll={_KEPT}&preference=swiftlet", body)
        scroll = {"scroll_id": answer["_scroll_id"]}
        try:
            while found := answer["hits"]["hits"]:
                yield from found
                answer = ask("/_search/scroll", {"scroll": _KEPT, **scroll})
                scroll["scroll_id"] = answer.get("_scroll_id", scroll["scroll_id"])
        finally:
            with suppress(CollectionError):  # the server forgets it by itself, only later
                ask("/_search/scroll", scroll, method="DELETE")

    def pairs(first: int) -> Pairs:
        with _as_expected(place):
            for hit in islice(hits(), first, None):
                row = {"_id": hit["_id"], **hit["_source"]}
                vector = _taken(row, field)
                yield row, vector

    return of_pairs(place.name, pairs, fields, metric=metric, num_rows=count)


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


class _Server:
    """Asks the server of an address."""

    def __init__(self, place: Place) -> None:
        headers = {}
        if token := place.token:
            coded = base64.b64encode(token.encode()).decode()
            headers["Authorization"] = f"Basic {coded}" if ":" in token else f"ApiKey {token}"
        self._place, self._exchange = place, Exchanges(headers)
        self._url = f"http{'s' * place.encrypted}://{place.host}"

    def __call__(
        self, path: str, body: Mapping[str, Any] | None = None, method: str | None = None
    ) -> Any:
        """The answer of the server, as JSON.

        :raises CollectionError: When it does not answer in time, refuses, sends to another address,
            or answers something else or more than `LARGEST_ANSWER`.
        """
        place, due = self._place, perf_counter() + ANSWER_SECONDS
        content = None if body is None else json.dumps(body).encode()
        asked = method or ("GET" if body is None else "POST"), f"{self._url}{path}", content
        with place.reading(ValueError, RecursionError):
            try:
                answer = self._exchange(*asked, due=due, most_bytes=LARGEST_ANSWER)
            except TimeoutError:
                problem = f"the server has not answered within {ANSWER_SECONDS} s"
                raise CollectionError(place.name, problem) from None
            except AnswerError as error:
                raise CollectionError(
                    place.name, f"the server {place.hidden(f'{error}')}"
                ) from None
            if answer.status not in _TAKEN:
                raise self._refusal(path.partition("?")[0], answer)
            return json.loads(answer.content)

    def _refusal(self, path: str, answer: Answer) -> CollectionError:
        place = self._place
        if answer.status in _REDIRECTS:
            address = shown(place.hidden(answer.headers.get("location", "")))
            return CollectionError(
                place.name,
                f"the server answers {path} with {answer.status}, which sends on to {address}: "
                "name the address that answers itself",
            )
        said = answer.content[:_REFUSAL_BYTES].decode("utf-8", "replace")
        with suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
            reasons = json.loads(said)["error"]
            parts = (reasons[name] for name in ("type", "reason") if name in reasons)
            said = ": ".join(parts) or said
        return CollectionError(
            place.name, f"the server refuses {path}: {answer.status} {shown(place.hidden(said))}"
        )
