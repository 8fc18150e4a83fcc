"""A collection of Milvus that another program made: of a server, or of a file of Milvus Lite."""

from itertools import islice
from typing import Any

import numpy as np

from swiftlet.corpora.fields import ID_FIELDS, Fields
from swiftlet.corpora.vector_sources.place import Place
from swiftlet.corpora.vector_sources.source import ROWS_AT_ONCE, Pairs, Source, chosen, of_pairs
from swiftlet.corpora.vectors import Metric
from swiftlet.errors import CollectionError
from swiftlet.extras import extra

SUFFIX = ".db"
_METRICS: dict[str, Metric] = {"COSINE": "cosine", "IP": "inner_product", "L2": "l2"}


def open_milvus(place: Place, vector_field: str | None, fields: Fields | None) -> Source:
    """The entities of a collection; the primary key is "_id".

    The address is `milvus://HOST:PORT/COLLECTION` or `…/DATABASE/COLLECTION`, with TLS
    `milvus+tls://…`.

    :raises CollectionError: When the server does not answer, or there are several collections or
        fields of vectors of which none is chosen.
    :raises MissingExtraError: When pymilvus is not installed.
    """
    with extra("milvus"):
        from pymilvus import DataType, MilvusClient, MilvusException
    database, _, collection = place.path.rpartition("/")
    with place.reading(MilvusException):
        if place.scheme:
            url = f"http{'s' * place.encrypted}://{place.host}"
            client = MilvusClient(url, token=place.token, db_name=database)
        else:
            client, collection = MilvusClient(place.path), ""
        names = client.list_collections()
    name = place.one("collection", names, collection)
    with place.reading(MilvusException):
        schema = client.describe_collection(name)["fields"]
        count = int(client.query(name, output_fields=["count(*)"])[0]["count(*)"])
        metrics = {
            each["field_name"]: each.get("metric_type", "")
            for each in (client.describe_index(name, index) for index in client.list_indexes(name))
        }
    kinds = {each["name"]: each["type"] for each in schema}
    served = (DataType.FLOAT_VECTOR, DataType.FLOAT16_VECTOR)
    field = chosen(
        place.name, "field", [each for each in kinds if kinds[each] in served], vector_field
    )
    if (metric := metrics.get(field, "")) not in {"", *_METRICS}:
        raise CollectionError(
            place.name, f"its metric is {metric}, where {', '.join(_METRICS)} are served"
        )
    key = next(each["name"] for each in schema if each.get("is_primary"))
    left_out = {each for each, kind in kinds.items() if "VECTOR" in DataType(kind).name}

    def pairs(first: int) -> Pairs:
        for entity in islice(entities(), first, None):
            vector = entity[field]
            if isinstance(vector, list) and vector and isinstance(vector[0], bytes):
                vector = vector[0]
            if isinstance(vector, bytes):
                vector = np.frombuffer(vector, np.float16)
            row = {each: value for each, value in entity.items() if each not in left_out}
            if key not in ID_FIELDS:
                row["_id"] = row.pop(key)
            yield row, vector

    def entities() -> Any:
        with place.reading(MilvusException):
            client.load_collection(name)
            found = client.query_iterator(name, batch_size=ROWS_AT_ONCE, output_fields=["*"])
        try:
            while True:
                with place.reading(MilvusException):
                    some = found.next()
                if not some:
                    return
                yield from some
        finally:
            found.close()

    return of_pairs(place.name, pairs, fields, metric=_METRICS.get(metric), num_rows=count)
