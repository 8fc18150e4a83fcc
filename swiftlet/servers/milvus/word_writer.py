"""Writes the words of passages to a Milvus server: see `swiftlet.servers.milvus.words`."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from swiftlet.address import Address
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.documents.split import SplitDocument
from swiftlet.index.lexical.analysis import analysis_of
from swiftlet.index.lexical.bm25 import word_place
from swiftlet.progress import Progress
from swiftlet.servers.milvus.collection import Collection
from swiftlet.servers.milvus.rows import Row
from swiftlet.servers.milvus.schema import (
    MANIFEST,
    PLACE,
    UNUSED,
    WITH_WORD,
    WORD_STATISTICS,
    WORDS,
)
from swiftlet.servers.milvus.words import WordCounts, WordStatistics
from swiftlet.servers.words import WordVectors, words_of

_BATCH_ROWS = 5_000
_UNUSED = [0.0, 1.0]


def word_vectors(description: Mapping[str, Any]) -> WordVectors | None:
    """What gives the words of passages for a collection, if it has words."""
    properties = description["properties"]
    if (statistics := WordStatistics.of(properties)) is None:
        return None
    language = json.loads(properties[MANIFEST])["details"]["language"]
    return WordVectors(language, statistics.mean_length)


def push_words(
    passages: Address, documents: Iterable[SplitDocument], language: str, progress: Progress
) -> WordStatistics:
    """Count the words of all passages, and write the counts.

    :raises InvalidArgumentError: When a collection of another program has the name.
    """
    counts = WordCounts(passages)
    drop_words(counts.collection)
    found, size, length = Counter[int](), 0, 0
    analysis = analysis_of(language)
    for document in documents:
        for start, end in document.passages:
            words = words_of(analysis, document.title, document.text[start:end])
            found.update({word_place(word) for word in words})
            size, length = size + 1, length + len(words)
            progress.advance(1)
    statistics = WordStatistics(size, max(1.0, length / max(1, size)))
    _make_collection(counts.collection, statistics)
    rows = ({PLACE: place, WITH_WORD: n, UNUSED: _UNUSED} for place, n in found.items())
    while batch := [*islice(rows, _BATCH_ROWS)]:
        counts.collection.call("insert", slow=True, data=batch)
    counts.collection.call("flush", slow=True)
    counts.collection.call("load_collection", slow=True)
    return statistics


def drop_words(collection: Collection) -> None:
    """Remove the counts of an earlier push, if there are any.

    :raises InvalidArgumentError: When they are of another program.
    """
    if not collection.exists():
        return
    if WORD_STATISTICS not in collection.call("describe_collection")["properties"]:
        raise InvalidArgumentError(
            f"{collection.address}, where the counts of words are kept, was not made by Swiftlet: "
            "choose another name for the collection of passages"
        )
    collection.call("drop_collection", slow=True)


def note_new_words(counts: WordCounts, rows: Sequence[Row]) -> None:
    """Count the words that no passage had before; the other counts stay as they are."""
    known = counts.of({place for row in rows for place in row[WORDS]})
    new = [{PLACE: p, WITH_WORD: 1, UNUSED: _UNUSED} for p, count in known.items() if not count]
    if new:
        counts.collection.call("upsert", data=new)


def _make_collection(collection: Collection, statistics: WordStatistics) -> None:
    from pymilvus import DataType

    schema = collection.client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field(PLACE, DataType.INT64, is_primary=True)
    schema.add_field(WITH_WORD, DataType.INT64)
    schema.add_field(UNUSED, DataType.FLOAT_VECTOR, dim=len(_UNUSED))
    properties = {WORD_STATISTICS: statistics.as_property()}
    collection.call("create_collection", slow=True, schema=schema, properties=properties)
    parameters = collection.client.prepare_index_params()
    parameters.add_index(field_name=UNUSED, index_type="FLAT", metric_type="IP")
    collection.call("create_index", slow=True, index_params=parameters, sync=False)
