"""A collection of a Milvus server that is being pushed."""

import json
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from math import sqrt
from time import sleep
from typing import Any

import numpy as np
from pymilvus import DataType
from typing_extensions import override

from swiftlet.address import Address
from swiftlet.errors import IndexServerError, InvalidArgumentError, shown
from swiftlet.index.documents.split import SplitDocument
from swiftlet.index.lexical.bm25 import word_place
from swiftlet.progress import Progress
from swiftlet.servers.milvus import schema
from swiftlet.servers.milvus.collection import METRIC, Collection, index_of, state_of
from swiftlet.servers.milvus.filters import FilterFields, facet_columns
from swiftlet.servers.milvus.rows import Row, rows_of, with_rows
from swiftlet.servers.milvus.schema import EMBEDDING, WORDS
from swiftlet.servers.milvus.words import WordCounts, WordStatistics, word_vectors
from swiftlet.servers.sources import Source
from swiftlet.servers.state import COMPLETE, EXACT_UP_TO, PushState, manifest_text
from swiftlet.servers.target import Target
from swiftlet.types import Embeddings

_BATCH_ROWS = 500
_NOTED_BATCHES = 20
_NO_EMBEDDING = np.empty(0, np.float32)
_MOST_FACETS = 14  # a collection of Milvus has 64 fields at most, and a facet three


_WORDS_TYPE = "SPARSE_INVERTED_INDEX"
_FACETS_TYPES = ("INVERTED", "INVERTED", "INVERTED")
_OLD_FACETS_TYPES = ("Trie", "STL_SORT", "STL_SORT")
_LISTS_PER_ROOT = 1  # more take the server longer to make
_LINKS, _EF_CONSTRUCTION = 32, 200
_SECONDS_BETWEEN_LOOKS = 0.5
_LEAST_EF = 10
MOST_VISITED = {"nprobe": 65_536, "ef": 32_768}
"""The most that a server takes for a parameter; it visits no more lists than there are."""


@dataclass(frozen=True, slots=True)
class VectorIndexPlan:
    """How the server indexes embeddings; a search visits at most `most` lists, or nodes of a graph.

    `parameter` is what says how many; it is empty if every passage is compared.
    """

    index_type: str
    parameters: dict[str, int]
    parameter: str = ""
    least: int = 1
    most: int = 1


def plan_index(size: int, index_type: str | None) -> VectorIndexPlan:
    """The index of `size` passages; without a type, the default one for this size."""
    if index_type is None:
        index_type = "FLAT" if size <= EXACT_UP_TO else "IVF_SQ8"
    if index_type == "FLAT":
        return VectorIndexPlan(index_type, {})
    if index_type == "HNSW":
        parameters = {"M": _LINKS, "efConstruction": _EF_CONSTRUCTION}
        return VectorIndexPlan(index_type, parameters, "ef", _LEAST_EF, MOST_VISITED["ef"])
    lists = max(1, int(_LISTS_PER_ROOT * sqrt(size)))
    return VectorIndexPlan(index_type, {"nlist": lists}, "nprobe", 1, lists)


def make_index(collection: Collection, plan: VectorIndexPlan, *, facets: int, hybrid: bool) -> None:
    """Have the server index the embeddings, the facets, and words if it is `hybrid`.

    What it has indexed already, before an interruption, stays.
    """
    wanted: dict[str, dict[str, Any]] = {
        EMBEDDING: {
            "index_type": plan.index_type, "metric_type": METRIC, "params": plan.parameters
        }
    }  # fmt: skip
    if hybrid:
        wanted[WORDS] = {"index_type": _WORDS_TYPE, "metric_type": METRIC}
    types = _OLD_FACETS_TYPES if collection.is_old() else _FACETS_TYPES
    for place in range(facets):
        columns = zip(facet_columns(place), types, strict=True)
        wanted |= {column: {"index_type": its_type} for column, its_type in columns}
    parameters = collection.client.prepare_index_params()
    for name, settings in wanted.items():
        if not collection.call("list_indexes", field_name=name):
            parameters.add_index(field_name=name, **settings)
    if len(parameters):
        collection.call("create_index", slow=True, index_params=parameters, sync=False)


def await_index(collection: Collection, total: int, progress: Progress) -> None:
    """Wait until the server has indexed all rows; it may take hours."""
    progress.begin("Indexing on the server", total)
    done, state = 0, ""
    while state != "Finished":
        sleep(_SECONDS_BETWEEN_LOOKS)
        found = collection.call("describe_index", index_name=EMBEDDING)
        state = found["state"]
        if state == "Failed":
            raise IndexServerError(f"{collection.address.server} cannot index the embeddings")
        now = min(total, int(found["indexed_rows"]))
        progress.advance(max(0, now - done))
        done = max(done, now)


class MilvusTarget(Target):
    """A collection, and if it has words the collection of their counts."""

    server = "Milvus"
    index_types = "FLAT", "IVF_FLAT", "IVF_SQ8", "HNSW"

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.collection = Collection(address)
        self._fields, self._hashes = FilterFields(), array("q")
        self._plan = VectorIndexPlan("FLAT", {})
        self._counts = Counter[int]()
        self._again = False

    @override
    def lacks_words(self) -> str:
        return "the server is older than Milvus 2.4" if self.collection.is_old() else ""

    @override
    def count_words(self, words: Sequence[str]) -> None:
        super().count_words(words)
        self._counts.update({word_place(word) for word in words})

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
    def create(self, source: Source, progress: Progress) -> None:
        collection, hybrid = self.collection, self.mean_length is not None
        self._again = False
        if hybrid:
            WordCounts(self.address).drop()
        if collection.exists():
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
        if self.mean_length is not None and word_vectors(collection.description()) is None:
            statistics = WordStatistics(total, self.mean_length)
            WordCounts(self.address).push(self._counts, statistics)
            collection.set_properties({schema.WORD_STATISTICS: statistics.as_property()}, slow=True)
        description = collection.description()
        words, facets = word_vectors(description), FilterFields.of(description["properties"]).facets
        progress.begin("Pushing passages", total, done)
        rows = chain.from_iterable(
            rows_of(document, document.passages, embeddings, words, facets)
            for document, embeddings in source.encoded()
        )
        self._write(islice(rows, done, None), done, progress)
        collection.call("flush", slow=True)

    def _write(self, rows: Iterator[Row], done: int, progress: Progress) -> None:
        """Insert rows; note from time to time how many there are."""
        number = 0
        while batch := [*islice(rows, _BATCH_ROWS)]:
            # What was written after the last note is there already.
            self._write_batch(batch, is_new=not self._again or number >= _NOTED_BATCHES)
            done, number = done + len(batch), number + 1
            progress.advance(len(batch))
            if number % _NOTED_BATCHES == 0:
                self.set_state(f"{done}")
        self.set_state(f"{done}")

    def _write_batch(self, batch: list[Row], *, is_new: bool) -> None:
        """Insert rows, or write them over those that may be there."""
        if is_new:
            try:
                self.collection.call("insert", slow=True, once=True, data=batch)
            except IndexServerError:
                is_new = False  # the answer may be lost, and two inserts would make two rows
        if not is_new:
            self.collection.call("upsert", slow=True, data=batch)

    @override
    def index(self, total: int, index_type: str | None, progress: Progress) -> None:
        collection = self.collection
        self._plan = plan_index(total, index_of(collection).get("index_type", index_type))
        facets = len(FilterFields.of(collection.description()["properties"]).facets)
        make_index(collection, self._plan, facets=facets, hybrid=self.mean_length is not None)
        await_index(collection, total, progress)
        collection.call("load_collection", slow=True)

    @override
    def count(self) -> int:
        return self.collection.count(exactly=True)

    @override
    def sample(self, count: int) -> list[tuple[str, str, str, Embeddings]]:
        fields = [schema.TITLE, schema.TEXT, schema.HEADING, schema.EMBEDDING]
        found = self.collection.call("query", filter="", limit=count, output_fields=fields)
        rows = ([row[name] for name in fields] for row in found)
        return [(*texts, np.array(row, np.float32)) for *texts, row in rows]

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
