"""A collection of Qdrant, of a server."""

from itertools import islice
from pathlib import Path
from typing import Any

from swiftlet.corpora.fields import Fields
from swiftlet.corpora.vector_sources.place import Place
from swiftlet.corpora.vector_sources.source import ROWS_AT_ONCE, Pairs, Source, chosen, of_pairs
from swiftlet.corpora.vectors import Metric
from swiftlet.errors import CollectionError
from swiftlet.extras import extra

_METRICS: dict[str, Metric] = {"Cosine": "cosine", "Dot": "inner_product", "Euclid": "l2"}
_TIMEOUT_SECONDS = 60


def is_qdrant(folder: Path) -> bool:
    """Whether a folder is one of the local mode of Qdrant's client, whose points are pickles."""
    return (folder / "meta.json").is_file() and (folder / "collection").is_dir()


def open_qdrant(place: Place, vector_field: str | None, fields: Fields | None) -> Source:
    """The points of a collection, with "_id" and the fields of their payload.

    The address is `qdrant://HOST:PORT/COLLECTION`, with TLS `qdrant+https://…`.

    :raises CollectionError: When the server does not answer; when there are several collections or
        vectors of a point of which none is chosen; when the distance is Manhattan.
    :raises MissingExtraError: When qdrant-client is not installed.
    """
    with extra("qdrant"):
        from qdrant_client import QdrantClient
        from qdrant_client.http.exceptions import ApiException
    errors = (ApiException, ValueError, RuntimeError)
    with place.reading(*errors):
        url = f"http{'s' * place.encrypted}://{place.host}"
        client = QdrantClient(url, api_key=place.token or None, timeout=_TIMEOUT_SECONDS)
        names = [each.name for each in client.get_collections().collections]
    name = place.one("collection", names, place.path)
    with place.reading(*errors):
        kinds: Any = client.get_collection(name).config.params.vectors
        count = client.count(name, exact=True).count
    field: str | None = None
    if isinstance(kinds, dict):
        single = [each for each, kind in kinds.items() if kind.multivector_config is None]
        field = chosen(place.name, "field", single, vector_field)
        kinds = kinds[field]
    distance = kinds.distance.value
    if distance not in _METRICS:
        raise CollectionError(
            place.name, f"its distance is {distance}, where {', '.join(_METRICS)} are served"
        )

    def pairs(first: int) -> Pairs:
        for point in islice(points(), first, None):
            row = {"_id": f"{point.id}", **(point.payload or {})}
            vector = point.vector.get(field) if field is not None else point.vector
            yield row, vector

    def points() -> Any:
        offset = None
        while True:
            with place.reading(*errors):
                some, offset = client.scroll(
                    name,
                    limit=ROWS_AT_ONCE,
                    offset=offset,
                    with_vectors=True if field is None else [field],
                )
            yield from some
            if offset is None:
                return

    return of_pairs(place.name, pairs, fields, metric=_METRICS[distance], num_rows=count)
