"""A collection of Chroma, in its directory."""

from pathlib import Path
from typing import Any

from swiftlet.corpora.fields import Fields
from swiftlet.corpora.lines import read_errors
from swiftlet.corpora.vector_sources.place import Place
from swiftlet.corpora.vector_sources.source import ROWS_AT_ONCE, Pairs, Source, of_pairs
from swiftlet.corpora.vectors import Metric
from swiftlet.extras import extra

_METRICS: dict[str, Metric] = {"cosine": "cosine", "ip": "inner_product", "l2": "l2"}


def is_chroma(folder: Path) -> bool:
    """Whether a folder is one of Chroma."""
    return (folder / "chroma.sqlite3").is_file()


def open_chroma(place: Place, _vector_field: str | None, fields: Fields | None) -> Source:
    """The records of a collection, with "_id", "text" and "metadata"; `?collection=` chooses it.

    :raises CollectionError: When the directory cannot be read, or has several collections of which
        none is chosen.
    :raises MissingExtraError: When chromadb is not installed.
    """
    with extra("chroma"):
        import chromadb
        from chromadb.errors import ChromaError
    errors = (ChromaError, ValueError)
    with read_errors(place.name, *errors):
        settings = chromadb.Settings(anonymized_telemetry=False)
        client = chromadb.PersistentClient(place.path, settings)
        names = [each.name for each in client.list_collections()]
    name = place.one("collection", names)
    with read_errors(place.name, *errors):
        collection = client.get_collection(name, embedding_function=None)
        ids: list[str] = collection.get(include=[])["ids"]
        configuration: dict[str, Any] = collection.configuration_json.get("hnsw") or {}

    def pairs(first: int) -> Pairs:
        for start in range(first, len(ids), ROWS_AT_ONCE):
            some = ids[start : start + ROWS_AT_ONCE]
            with read_errors(place.name, *errors):
                found: Any = collection.get(
                    ids=some, include=["embeddings", "documents", "metadatas"]
                )
            columns = (found["embeddings"], found["documents"], found["metadatas"])
            records = dict(zip(found["ids"], zip(*columns, strict=True), strict=True))
            for record_id in some:
                vector, text, metadata = records.get(record_id, (None, None, None))
                row = {"_id": record_id, "metadata": dict(metadata or {})}
                row |= {} if text is None else {"text": text}
                yield row, vector

    metric = _METRICS.get(configuration.get("space", ""))
    return of_pairs(place.name, pairs, fields, metric=metric, num_rows=len(ids))
