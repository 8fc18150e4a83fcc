"""A collection of a Milvus server that is being pushed."""

import json
from array import array
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any

import numpy as np
from pymilvus import DataType
from typing_extensions import override

from swiftlet.address import Address
from swiftlet.errors import InvalidArgumentError, shown
from swiftlet.index.documents.split import SplitDocument
from swiftlet.index.lexical.analysis import analysis_in
from swiftlet.progress import Progress
from swiftlet.servers.milvus import schema
from swiftlet.servers.milvus.bulk_insert import BulkInsert, Place, await_tasks
from swiftlet.servers.milvus.collection import Collection, index_of, state_of
from swiftlet.servers.milvus.filter_fields import FilterFields, facet_columns
from swiftlet.servers.milvus.rows import Row, rows_of, with_rows
from swiftlet.servers.milvus.vector_index import (
    MOST_VISITED,
    VectorIndexPlan,
    await_index,
    make_index,
    plan_index,
)
from swiftlet.servers.milvus.words import WordCounts, word_vectors
from swiftlet.servers.sources import Source
from swiftlet.servers.state import COMPLETE, PushState, manifest_text
from swiftlet.servers.target import SamplePassage, Target, reads_no_files
from swiftlet.types import Embeddings

_BATCH_ROWS = 500
_NOTED_BATCHES = 20
_NO_EMBEDDING = np.empty(0, np.float32)
_MOST_FACETS = 14  # a collection of Milvus has 64 fields at most, and a facet three


class MilvusTarget(Target):
    """A collection, and if it has words the collection of their counts."""

    engine = "Milvus"
    index_types = "FLAT", "IVF_FLAT", "IVF_SQ8", "HNSW"

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.collection = Collection(address)
        self._fields, self._hashes = FilterFields(), array("q")
        self._plan = VectorIndexPlan("FLAT", {})
        self._hybrid = self._again = False
        self._bulk: BulkInsert | None = None

    @override
    def insert_in_bulk(self, place: str) -> None:
        if self.collection.is_lite():
            raise reads_no_files("Milvus Lite")
        self._bulk = BulkInsert(self.collection, Place(place))

    @override
    def reason_against_words(self, details: Mapping[str, Any]) -> str:
        reason = super().reason_against_words(details)
        if not reason and self.collection.is_old():
            reason = "the server is older than Milvus 2.4"
        self._hybrid = not reason
        return reason

    @override
    def begun(self) -> PushState | None:
        if not self.collection.exists():
            return None
        description, self._again = self.collection.description(), True
        return state_of(description, index_of(self.collection).get("index_type"))

    @override
    def check(self, source: Source, progress: Progress) -> int:
        declared = tuple(dict.fromkeys(source.manifest.details.get("facets", ())))
        self._fields, self._hashes = FilterFields(declared[:_MOST_FACETS]), array("q")
        if more := declared[_MOST_FACETS:]:
            progress.note(
                f"the server indexes {_MOST_FACETS} facets; filters on further facets are slower: "
                f"{', '.join(map(shown, more))}"
            )
        total = super().check(source, progress)
        ordered = np.sort(np.frombuffer(self._hashes, np.int64))
        if len(twice := ordered[1:][ordered[1:] == ordered[:-1]]):
            names = [
                document.document_id
                for document in source.documents()
                for number in range(len(document.passages))
                if schema.row_of(document.document_id, number) == twice[0]
            ]
            raise InvalidArgumentError(
                f"passages of the documents {shown(names)} have the same hash: give one another id"
            )
        return total

    @override
    def check_document(self, document: SplitDocument) -> None:
        spans = document.passages
        rows = [*rows_of(document, spans, [_NO_EMBEDDING] * len(spans))]
        self._fields = with_rows(self._fields, rows)
        self._hashes.extend(row[schema.ROW] for row in rows)

    @override
    def create(self, source: Source, progress: Progress, *, hybrid: bool) -> None:
        collection = self.collection
        self._again = False
        if hybrid:
            WordCounts(self.address).drop()
        if collection.exists():
            if not collection.is_lite():
                await_tasks(collection, progress)
            collection.call("drop_collection", slow=True)
        fields = collection.client.create_schema(auto_id=False, enable_dynamic_field=False)
        fields.add_field(schema.ROW, DataType.INT64, is_primary=True)
        fields.add_field(schema.DOCUMENT_ID, DataType.VARCHAR, max_length=schema.LONGEST_ID)
        for name in (schema.NUMBER, schema.PASSAGES, schema.START, schema.END):
            fields.add_field(name, DataType.INT64)
        for name in schema.TEXTS:
            fields.add_field(name, DataType.VARCHAR, max_length=schema.LONGEST_TEXT)
        fields.add_field(schema.KEYS, DataType.JSON)
        fields.add_field(schema.EMBEDDING, DataType.FLOAT_VECTOR, dim=source.manifest.dim)
        if hybrid:
            fields.add_field(schema.WORDS, DataType.SPARSE_FLOAT_VECTOR)
        for text, *integers in map(facet_columns, range(len(self._fields.facets))):
            fields.add_field(text, DataType.VARCHAR, max_length=schema.LONGEST_ID)
            for column in integers:
                fields.add_field(column, DataType.INT64)
        properties = {
            schema.MANIFEST: manifest_text(source.manifest),
            schema.SOURCE: source.identity,
            schema.STATE: "0",
            schema.FILTER_FIELDS: self._fields.as_property(),
        }
        collection.call("create_collection", slow=True, schema=fields, properties=properties)

    @override
    def write(self, source: Source, total: int, done: int, progress: Progress) -> None:
        collection = self.collection
        if self._hybrid and word_vectors(collection.description()) is None:
            progress.begin("Counting words", total)
            analysis = analysis_in(source.manifest.details)
            statistics = WordCounts(self.address).push(source.documents(), analysis, progress)
            collection.set_properties({schema.WORD_STATISTICS: statistics.as_property()}, slow=True)
        description = collection.description()
        words, facets = word_vectors(description), FilterFields.of(description["properties"]).facets
        progress.begin("Pushing passages", total, done)
        rows = chain.from_iterable(
            rows_of(document, document.passages, embeddings, words, facets)
            for document, embeddings in source.encoded()
        )
        rest = islice(rows, done, None)
        if self._bulk is None:
            self._write(rest, done, progress)
        else:
            for number in self._bulk.insert(rest, done, progress):
                done += number
                self.set_state(f"{done}")
        collection.call("flush", slow=True)

    def _write(self, rows: Iterator[Row], done: int, progress: Progress) -> None:
        """Insert rows; note from time to time how many there are."""
        number = 0
        while batch := [*islice(rows, _BATCH_ROWS)]:
            # What was written after the last note is there already.
            resumed = self._again and number < _NOTED_BATCHES
            self.collection.call("upsert" if resumed else "insert", slow=True, data=batch)
            done, number = done + len(batch), number + 1
            progress.advance(len(batch))
            if number % _NOTED_BATCHES == 0:
                self.set_state(f"{done}")
        self.set_state(f"{done}")

    @override
    def index(self, total: int, index_type: str | None, progress: Progress) -> None:
        collection = self.collection
        self._plan = plan_index(total, index_of(collection).get("index_type", index_type))
        facets = len(FilterFields.of(collection.description()["properties"]).facets)
        make_index(collection, self._plan, facets=facets, hybrid=self._hybrid)
        await_index(collection, total, progress)
        collection.call("load_collection", slow=True)

    @override
    def count(self) -> int:
        return self.collection.count(exactly=True)

    @override
    def sample(self, count: int) -> list[SamplePassage]:
        fields = [schema.TITLE, schema.TEXT, schema.EMBEDDING]
        found = self.collection.call("query", filter="", limit=count, output_fields=fields)
        rows = ([row[name] for name in fields] for row in found)
        return [SamplePassage(title, text, np.array(row, np.float32)) for title, text, row in rows]

    @property
    @override
    def efforts(self) -> tuple[int, int] | None:
        plan = self._plan
        return (plan.least, plan.most) if plan.parameter else None

    @override
    def search(self, queries: Embeddings, count: int, effort: int) -> list[list[float]]:
        found = self.collection.call(
            "search",
            slow=True,
            data=[*queries],
            anns_field=schema.EMBEDDING,
            limit=count,
            search_params={"params": {self._plan.parameter: effort}},
        )
        return [[hit.distance for hit in hits] for hits in found]

    @override
    def set_state(self, state: str, effort: int | None = None) -> None:
        properties = {schema.STATE: state}
        if state == COMPLETE:
            name, found = self._plan.parameter, {}
            if effort:
                found = {schema.FAST: {name: effort}, schema.THOROUGH: {name: MOST_VISITED[name]}}
            properties[schema.PARAMETERS] = json.dumps(found)
        self.collection.set_properties(properties, slow=True)
