"""The words of passages on a Milvus server: sparse vectors, and how many passages have each word.

The passages' vectors stand beside their embeddings. The counts have a collection of their own.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from threading import Lock
from typing import Any, Self

from pymilvus import DataType

from swiftlet.address import Address
from swiftlet.errors import InvalidArgumentError
from swiftlet.servers.milvus import schema
from swiftlet.servers.milvus.collection import Collection
from swiftlet.servers.milvus.rows import Row
from swiftlet.servers.words import WordVectors

_MOST_KEPT = 200_000
_BATCH_ROWS = 5_000
_UNUSED = [0.0, 1.0]


@dataclass(frozen=True, slots=True)
class WordStatistics:
    """The number of passages that words were counted in, and their mean number of words."""

    size: int
    mean_length: float

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self | None:
        """The statistics in the properties of a collection, if it has words."""
        found = properties.get(schema.WORD_STATISTICS)
        return None if found is None else cls(**json.loads(found))

    def as_property(self) -> str:
        """What `of` reads."""
        return json.dumps(asdict(self))


def word_vectors(description: Mapping[str, Any]) -> WordVectors | None:
    """What gives the words of passages for a collection, if it has words."""
    properties = description["properties"]
    if (statistics := WordStatistics.of(properties)) is None:
        return None
    details = json.loads(properties[schema.MANIFEST])["details"]
    return WordVectors(details, statistics.mean_length)


class WordCounts:
    """How many passages have the word at each place. Thread-safe."""

    def __init__(self, passages: Address) -> None:
        """Connect to the collection beside the collection of the passages."""
        name = f"{passages.collection}_words"
        self.collection = Collection(replace(passages, collection=name))
        self._kept: dict[int, int] = {}
        self._lock = Lock()

    def of(self, places: Iterable[int]) -> dict[int, int]:
        """The count of each place, 0 if no passage had the word when they were counted."""
        with self._lock:
            found = {place: self._kept.get(place, 0) for place in places}
        if missing := [place for place, count in found.items() if not count]:
            known = self.collection.rows(missing, [schema.WITH_WORD], key=schema.PLACE)
            new = {place: int(row[schema.WITH_WORD]) for place, row in known.items()}
            found |= new
            with self._lock:
                if len(self._kept) > _MOST_KEPT:
                    self._kept.clear()
                self._kept |= new
        return found

    def note_new(self, rows: Sequence[Row]) -> None:
        """Count the words that no passage had before; the other counts stay as they are."""
        known = self.of({place for row in rows for place in row[schema.WORDS]})
        if new := [_row(place, 1) for place, count in known.items() if not count]:
            self.collection.call("upsert", data=new)

    def push(self, counts: Mapping[int, int], statistics: WordStatistics) -> None:
        """Write the counts of a push in the place of earlier ones.

        :raises InvalidArgumentError: When a collection of another program has the name.
        """
        self.drop()
        self._create(statistics)
        rows = (_row(place, count) for place, count in counts.items())
        while batch := [*islice(rows, _BATCH_ROWS)]:
            self.collection.call("insert", slow=True, data=batch)
        self.collection.call("flush", slow=True)
        self.collection.call("load_collection", slow=True)

    def drop(self) -> None:
        """Remove the counts of an earlier push, if there are any.

        :raises InvalidArgumentError: When they are of another program.
        """
        if not self.collection.exists():
            return
        properties = self.collection.call("describe_collection")["properties"]
        if schema.WORD_STATISTICS not in properties:
            raise InvalidArgumentError(
                f"{self.collection.address}, where the counts of words are kept, was not made by "
                "Swiftlet: choose another name for the collection of passages"
            )
        self.collection.call("drop_collection", slow=True)

    def _create(self, statistics: WordStatistics) -> None:
        client, call = self.collection.client, self.collection.call
        fields = client.create_schema(auto_id=False, enable_dynamic_field=False)
        fields.add_field(schema.PLACE, DataType.INT64, is_primary=True)
        fields.add_field(schema.WITH_WORD, DataType.INT64)
        fields.add_field(schema.UNUSED, DataType.FLOAT_VECTOR, dim=len(_UNUSED))
        properties = {schema.WORD_STATISTICS: statistics.as_property()}
        call("create_collection", slow=True, schema=fields, properties=properties)
        parameters = client.prepare_index_params()
        parameters.add_index(field_name=schema.UNUSED, index_type="FLAT", metric_type="IP")
        call("create_index", slow=True, index_params=parameters, sync=False)


def _row(place: int, count: int) -> Row:
    return {schema.PLACE: place, schema.WITH_WORD: count, schema.UNUSED: _UNUSED}
