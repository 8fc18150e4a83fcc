"""What is done with indexes on a Milvus server; one is followed while other programs write."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from threading import Lock
from time import monotonic
from typing import Any

import numpy as np
from typing_extensions import override

from swiftlet.address import Address
from swiftlet.encoders.encoder import Encoder
from swiftlet.errors import ChangedMeanwhileError, IndexServerError, InvalidArgumentError, shown
from swiftlet.index.changes.log import Change
from swiftlet.index.documents.split import SplitDocument
from swiftlet.index.server import Description, Server
from swiftlet.index.updates.writer import Changed, Preparation
from swiftlet.manifest import Manifest
from swiftlet.servers.milvus import schema
from swiftlet.servers.milvus.collection import (
    METRIC,
    Collection,
    index_of,
    manifest_of,
    parameters_of,
)
from swiftlet.servers.milvus.filters import FilterFields
from swiftlet.servers.milvus.passages import MilvusPassages
from swiftlet.servers.milvus.rows import Row, read_documents, rows_of, with_rows
from swiftlet.servers.milvus.target import MilvusTarget
from swiftlet.servers.milvus.words import WordCounts, WordStatistics, word_vectors
from swiftlet.servers.parts import ServerIndex
from swiftlet.servers.pull import Pulled
from swiftlet.servers.writer import ServerWriter, told
from swiftlet.types import Document, Embeddings

_SECONDS_TO_LOAD = 60.0
_BATCH_DOCUMENTS = 100
_ATTEMPTS = 5
_FIRST = f"{schema.NUMBER} == 0"
_VISITED = {"nprobe": "lists", "ef": "passages of a graph"}

Seen = tuple[int, Mapping[str, str], int]
"""What changes when a collection does: its id, its properties, and its number of passages."""


class MilvusIndex(ServerIndex):
    """The parts of a collection as it is now, which the server loads into its memory."""

    def __init__(self, address: Address, encoder: Encoder) -> None:
        self.collection = Collection(address)
        self._failed = False
        self._answers_since: float | None = None
        self._counts: tuple[WordStatistics, WordCounts] | None = None
        self._load(self.collection.description())
        super().__init__(address, encoder)

    @override
    def refresh(self) -> bool:
        # After it was away, the server may have to load the collection again.
        failed, self._failed = self._failed, True
        if failed:
            self._open(self._loaded_again())
        changed = failed or super().refresh()
        self._failed, self._answers_since = False, None
        return changed

    @override
    def _look(self) -> Seen:
        description = self.collection.description()
        size = self.collection.count()
        return description["collection_id"], description["properties"], size

    def _load(self, description: Mapping[str, Any]) -> Manifest:
        """Have the server load the collection; the manifest of its index."""
        manifest = manifest_of(description, self.collection.address)
        if (metric := index_of(self.collection)["metric_type"]) != METRIC:
            raise InvalidArgumentError(
                f"{self.collection.address} is searched by {metric}, but by {METRIC} is expected: "
                "push the index again with --overwrite"
            )
        self.collection.call("load_collection", slow=True)
        return manifest

    def _loaded_again(self) -> Seen:
        """Load the collection again, and look.

        A server that has lost some of its nodes answers before it has loaded their passages: with
        2.3.5, it found nothing for 12 s.

        :raises IndexServerError: While the same collection has fewer passages than before, for a
            minute at most, since other programs may have deleted passages.
        """
        self.collection.call("load_collection", slow=True)
        seen = self._look()
        collection_id, properties, size = seen
        before_id, before_properties, before = self._seen
        self._answers_since = self._answers_since or monotonic()
        if (
            collection_id == before_id
            and properties[schema.MANIFEST] == before_properties[schema.MANIFEST]
            and size < before
            and monotonic() < self._answers_since + _SECONDS_TO_LOAD
        ):
            raise IndexServerError(
                f"{self.collection.address} has {size} of {before} passages since it was "
                f"away; searches go on with fewer after {_SECONDS_TO_LOAD:.0f} s"
            )
        return seen

    @override
    def _opened(self, seen: Seen) -> tuple[Manifest, MilvusPassages, int | None]:
        collection = self.collection
        description = collection.description()
        manifest = self._load(description)
        statistics = WordStatistics.of(description["properties"])
        words = None if statistics is None else self._word_counts(statistics)
        counts = collection.count(_FIRST), seen[2]
        passages = MilvusPassages(collection, description, counts, words)
        collection.is_open = True
        return manifest, passages, statistics.size if statistics else None

    def _word_counts(self, statistics: WordStatistics) -> WordCounts:
        if self._counts is None or self._counts[0] != statistics:  # a push has counted again
            self._counts = statistics, WordCounts(self.collection.address)
        counts = self._counts[1]
        counts.collection.call("load_collection", slow=True)
        return counts


class MilvusWriter(ServerWriter):
    """Changes a collection.

    Searches of other clients see a change within seconds. `change` counts the documents that this
    writer has written or deleted.
    """

    def __init__(self, address: Address, preparation: Preparation) -> None:
        super().__init__(address, preparation)
        self._collection = Collection(address)
        self._writing = Lock()
        self._counts: WordCounts | None = None
        self._manifest_now()

    @property
    @override
    def num_documents(self) -> int:
        return self._collection.count(_FIRST, exactly=True)

    @override
    def _manifest_now(self) -> Manifest:
        return manifest_of(self._collection.description(), self.place)

    @override
    def append(self, changes: Sequence[Change], prepared_for: Manifest) -> Changed:
        """First all new passages are written, then those that documents have no more are deleted.

        :raises IndexServerError: When the server refuses, or another document has the row of one.
        """
        put = [(document, change) for change in changes if (document := change.document)]
        with told() as batch, self._writing:
            description = self._collection.description()
            self._check_fit(manifest_of(description, self.place), prepared_for)
            before = self._passages_of([change.document_id for _, change in put])
            words = word_vectors(description)
            fields = FilterFields.of(description["properties"])
            each = (
                rows_of(document, change.passages, change.embeddings, words, fields.facets)
                for document, change in put
            )
            rows = [*chain.from_iterable(each)]
            self._check_rows({row["row"]: row[schema.DOCUMENT_ID] for row in rows})
            if (changed := with_rows(fields, rows)) != fields:
                self._collection.set_properties({schema.FILTER_FIELDS: changed.as_property()})
            if words is not None:
                self._counts = self._counts or WordCounts(self.place)
                self._counts.note_new(rows)
            left_over = [*_left_over(rows, before)]
            batch.is_sent = True
            self._collection.call("upsert", data=[*rows, *left_over])
            self._remove([row[schema.ROW] for row in left_over])
            self._make_visible()
            self.change += len(put)
        return Changed(len(put), self.change)

    @override
    def _delete(self, document_ids: Sequence[str]) -> Mapping[str, int]:
        with told() as batch, self._writing:
            gone = self._passages_of(document_ids)
            batch.is_sent = bool(gone)
            self._remove(
                [schema.row_of(each, n) for each, count in gone.items() for n in range(count)]
            )
            self._make_visible()
            self.change += len(gone)
        return gone

    def _remove(self, rows: list[int]) -> None:
        if rows:
            self._collection.call("delete", ids=rows)

    def _make_visible(self) -> None:
        """Wait until the server has taken in what was written, so that the next search finds it."""
        self._collection.rows([0], [schema.DOCUMENT_ID], exactly=True)

    def _passages_of(self, document_ids: Sequence[str]) -> dict[str, int]:
        """The number of passages of those documents that exist.

        Behind them, there are passages that a cut has left over; they have the earlier number.
        """
        counts: dict[str, int] = {}
        ends = dict.fromkeys(document_ids, 0)
        while ends:
            rows = [schema.row_of(*end) for end in ends.items()]
            fields = [schema.DOCUMENT_ID, schema.PASSAGES]
            found = self._collection.rows(rows, fields, exactly=not counts).values()
            numbers = {row[schema.DOCUMENT_ID]: row[schema.PASSAGES] for row in found}
            ends = {each: numbers[each] for each, end in ends.items() if numbers.get(each, 0) > end}
            counts |= ends
        return counts

    def _check_rows(self, owners: dict[int, str]) -> None:
        """Refuse passages whose rows belong to another document: their hashes are the same."""
        for row, found in self._collection.rows([*owners], [schema.DOCUMENT_ID]).items():
            if (other := found[schema.DOCUMENT_ID]) != owners[row]:
                raise IndexServerError(
                    f"the documents {shown(owners[row])} and {shown(other)} have the same hash: "
                    "give one of them another id"
                )


def _left_over(rows: Sequence[Row], before: Mapping[str, int]) -> Iterator[Row]:
    """Of each document, the rows that had earlier passages and have none now.

    They are copies of the new first passage: if a cut leaves them, searches find nothing else by
    them.
    """
    for row in rows:
        if row[schema.NUMBER] == 0:
            document_id = row[schema.DOCUMENT_ID]
            end = before.get(document_id, 0)
            for number in range(row[schema.PASSAGES], end):
                place = schema.row_of(document_id, number)
                changed = {schema.ROW: place, schema.NUMBER: number, schema.PASSAGES: end}
                yield {**row, **changed}


def manifest_at(address: Address) -> Manifest:
    """The manifest of the index at an address."""
    return manifest_of(Collection(address).description(), address)


def describe(address: Address) -> Description:
    """What there is at an address."""
    collection = Collection(address)
    found = collection.description()
    manifest = manifest_of(found, address)
    collection.call("load_collection", slow=True)
    documents, passages = (collection.count(each, exactly=True) for each in (_FIRST, ""))
    has_words = WordStatistics.of(found["properties"]) is not None
    fast = parameters_of(found).get(schema.FAST, {})
    visited = {_VISITED[name]: value for name, value in fast.items()}
    return Description(manifest, documents, passages, has_words, visited)


def pulled(address: Address) -> Pulled:
    """What there is at an address."""
    collection = Collection(address)
    description = collection.description()
    manifest = manifest_of(description, address)
    collection.call("load_collection", slow=True)
    passages = MilvusPassages(collection, description, (0, 0))
    facets = passages.present(manifest.details.get("facets", ()))
    return Pulled(manifest, facets, _documents(collection))


def _documents(collection: Collection) -> Iterator[tuple[SplitDocument, Embeddings]]:
    for page in collection.pages(_FIRST, [schema.DOCUMENT_ID]):
        ids = [row[schema.DOCUMENT_ID] for row in page]
        for start in range(0, len(ids), _BATCH_DOCUMENTS):
            for document, rows in _read(collection, ids[start : start + _BATCH_DOCUMENTS]):
                spans = tuple((row[schema.START], row[schema.END]) for row in rows)
                parts = document.text, document.title, document.metadata, document.sections
                embeddings = np.array([row[schema.EMBEDDING] for row in rows], np.float32)
                yield SplitDocument(document.document_id, *parts, spans), embeddings


def _read(collection: Collection, document_ids: list[str]) -> list[tuple[Document, list[Row]]]:
    """Documents with their rows, read again if one has just changed."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(ChangedMeanwhileError):
            return [*read_documents(collection, document_ids, [schema.EMBEDDING]).values()]
    return [*read_documents(collection, document_ids, [schema.EMBEDDING]).values()]


SERVER = Server(
    source=MilvusIndex,
    manifest=manifest_at,
    description=describe,
    writer=MilvusWriter,
    target=MilvusTarget,
    corpus=pulled,
)
