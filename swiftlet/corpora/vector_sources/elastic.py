"""An index of Elasticsearch or OpenSearch, read by its scroll API."""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from swiftlet.corpora.fields import Fields
from swiftlet.corpora.lines import read_errors
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
from swiftlet.errors import CollectionError

_TIMEOUT_SECONDS = 60
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
    mappings = [each["mappings"] for each in _ask(place, f"{index}/_mapping").values()]
    kinds = {name: kind for each in mappings for name, kind in _vectors(each)}
    field = chosen(place.name, "field", [*kinds], vector_field)
    count = _ask(place, f"{index}/_count")["count"]
    body: dict[str, Any] = {"size": ROWS_AT_ONCE, "sort": ["_doc"]}
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
        for number, hit in enumerate(islice(hits(), first, None), first):
            row = {"_id": hit["_id"], **hit["_source"]}
            yield named(place.name, number, row, fields), _taken(row, field)

    metric = _METRICS.get(kinds[field])
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


def _ask(
    place: Place, path: str, body: Mapping[str, Any] | None = None, method: str | None = None
) -> Any:
    """The answer of the server, as JSON.

    :raises CollectionError: When it does not answer, refuses, or answers something else.
    """
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if token := place.token:
        coded = base64.b64encode(token.encode()).decode()
        headers["Authorization"] = f"Basic {coded}" if ":" in token else f"ApiKey {token}"
    url = f"http{'s' * place.encrypted}://{place.host}{path}"
    content = None if body is None else json.dumps(body).encode()
    request = Request(url, content, headers, method=method)  # noqa: S310 - of two schemes
    with read_errors(place.name, ValueError):
        try:
            with urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
                return json.load(answer)
        except HTTPError as error:
            said = error.read(300).decode("utf-8", "replace")
            raise CollectionError(
                place.name, f"the server refuses {path.partition('?')[0]}: {error.code} {said}"
            ) from error
