"""A collection of a Milvus server that is being pushed."""

import json
from array import array
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import get_args

import numpy as np

from swiftlet.address import Address
from swiftlet.errors import InvalidArgumentError, shown
from swiftlet.extras import extra
from swiftlet.index.documents.split import SplitDocument
from swiftlet.progress import Progress
from swiftlet.servers.milvus.bulk_insert import BulkInsert, Place, await_tasks
from swiftlet.servers.milvus.collection import Collection, index_of
from swiftlet.servers.milvus.filter_fields import FilterFields, facet_values
from swiftlet.servers.milvus.rows import Row, rows_of, rows_without_embeddings, with_rows
from swiftlet.servers.milvus.schema import (
    AFTER,
    BEFORE,
    DOCUMENT_ID,
    EMBEDDING,
    END,
    FAST,
    FILTER_FIELDS,
    HEADING,
    KEYS,
    LONGEST_ID,
    LONGEST_TEXT,
    MANIFEST,
    METADATA,
    NUMBER,
    PARAMETERS,
    PASSAGES,
    ROW,
    SECTIONS,
    SOURCE,
    START,
    STATE,
    TEXT,
    THOROUGH,
    TITLE,
    WORD_STATISTICS,
    WORDS,
    facet_columns,
    row_of,
)
from swiftlet.servers.milvus.vector_index import (
    MOST_VISITED,
    VectorIndexPlan,
    await_index,
    make_index,
    plan_index,
)
from swiftlet.servers.milvus.word_writer import drop_words, push_words, word_vectors
from swiftlet.servers.milvus.words import WordCounts
from swiftlet.servers.sources import Source
from swiftlet.servers.state import COMPLETE, manifest_text
from swiftlet.servers.target import (
    Begun,
    IndexType,
    SamplePassage,
    Target,
    missing_facet,
    reads_no_files,
)
from swiftlet.servers.words import WordVectors
from swiftlet.types import Embeddings

_BATCH_ROWS = 500
_NOTED_BATCHES = 20
_MOST_FACETS = 14  # a collection of Milvus has 64 fields at most, and a facet three


class MilvusTarget(Target):
    """A collection, and if it has words the collection of their counts."""

    engine = "Milvus"
    index_types = get_args(IndexType)

    def __init__(self, address: Address) -> None:
        """As `Target`."""
        super().__init__(address)
        self.collection = Collection(address)
        self._fields = FilterFields()
        self._plan = VectorIndexPlan("FLAT", {})
        self._hybrid = self._again = False
        self._bulk: BulkInsert | None = None

    def insert_in_bulk(self, place: str) -> None:
        """As `Target.insert_in_bulk`; Milvus Lite reads no files."""
        if self.collection.is_lite():
            raise reads_no_files("Milvus Lite")
        self._bulk = BulkInsert(self.collection, Place(place))

    def reason_against_words(self, language: str | None) -> str:
        """As `Target.reason_against_words`."""
        reason = super().reason_against_words(language)
        if not reason and self.collection.is_old():
            reason = "the server is older than Milvus 2.4"
        self._hybrid = not reason
        return reason

    def begun(self) -> Begun | None:
        """As `Target.begun`."""
        if not self.collection.exists():
            return None
        properties = self.collection.description()["properties"]
        self._again = True
        return Begun(
            properties.get(STATE, COMPLETE),
            properties.get(MANIFEST, ""),
            properties.get(SOURCE, ""),
            index_of(self.collection).get("index_type"),
        )

    def check(self, source: Source, progress: Progress) -> int:
        """As `Target.check`; two passages may have the same hash, too."""
        progress.begin("Checking documents", None)
        declared = tuple(dict.fromkeys(source.manifest.details.get("facets", ())))
        facets = declared[:_MOST_FACETS]
        if more := declared[_MOST_FACETS:]:
            progress.note(
                f"the server indexes {_MOST_FACETS} facets; filters on further facets are slower: "
                f"{', '.join(map(shown, more))}"
            )
        fields, missing, hashes = FilterFields(facets), {*source.new_facets}, array("q")
        for document in source.documents():
            rows = rows_without_embeddings(document, document.passages)
            fields = with_rows(fields, rows)
            hashes.extend(row[ROW] for row in rows)
            if missing and rows:
                missing -= {path for path in missing if any(facet_values(rows[0][KEYS], path))}
        if missing:
            raise missing_facet(min(missing))
        ordered = np.sort(np.frombuffer(hashes, np.int64))
        if len(twice := ordered[1:][ordered[1:] == ordered[:-1]]):
            names = [
                document.document_id
                for document in source.documents()
                for number in range(len(document.passages))
                if row_of(document.document_id, number) == twice[0]
            ]
            raise InvalidArgumentError(
                f"passages of the documents {shown(names)} have the same hash: give one another id"
            )
        self._fields = fields
        return len(hashes)

    def create(self, source: Source, progress: Progress, *, hybrid: bool) -> None:
        """As `Target.create`."""
        collection = self.collection
        self._again = False
        if hybrid:
            drop_words(WordCounts(self.address).collection)
        if collection.exists():
            if not collection.is_lite():
                await_tasks(collection, progress)
            collection.call("drop_collection", slow=True)
        with extra("milvus"):
            from pymilvus import DataType
        schema = collection.client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(ROW, DataType.INT64, is_primary=True)
        schema.add_field(DOCUMENT_ID, DataType.VARCHAR, max_length=LONGEST_ID)
        for name in (NUMBER, PASSAGES, START, END):
            schema.add_field(name, DataType.INT64)
        for name in (TITLE, HEADING, TEXT, BEFORE, AFTER, SECTIONS, METADATA):
            schema.add_field(name, DataType.VARCHAR, max_length=LONGEST_TEXT)
        schema.add_field(KEYS, DataType.JSON)
        schema.add_field(EMBEDDING, DataType.FLOAT_VECTOR, dim=source.manifest.dim)
        if hybrid:
            schema.add_field(WORDS, DataType.SPARSE_FLOAT_VECTOR)
        for text, *integers in map(facet_columns, range(len(self._fields.facets))):
            schema.add_field(text, DataType.VARCHAR, max_length=LONGEST_ID)
            for column in integers:
                schema.add_field(column, DataType.INT64)
        properties = {
            MANIFEST: manifest_text(source.manifest),
            SOURCE: source.identity,
            STATE: "0",
            FILTER_FIELDS: self._fields.as_property(),
        }
        collection.call("create_collection", slow=True, schema=schema, properties=properties)

    def write(self, source: Source, total: int, done: int, progress: Progress) -> None:
        """As `Target.write`; words are counted first."""
        collection = self.collection
        if self._hybrid and word_vectors(collection.description()) is None:
            progress.begin("Counting words", total)
            language = source.manifest.details["language"]
            statistics = push_words(self.address, source.documents(), language, progress)
            collection.set_properties({WORD_STATISTICS: statistics.as_property()}, slow=True)
        description = collection.description()
        words, facets = word_vectors(description), FilterFields.of(description["properties"]).facets
        progress.begin("Pushing passages", total, done)
        rows = _rows(source.documents(), source.embeddings(), words, facets)
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

    def index(self, total: int, index_type: IndexType | None, progress: Progress) -> None:
        """As `Target.index`."""
        collection = self.collection
        self._plan = plan_index(total, index_of(collection).get("index_type", index_type))
        facets = len(FilterFields.of(collection.description()["properties"]).facets)
        make_index(collection, self._plan, facets=facets, hybrid=self._hybrid)
        await_index(collection, total, progress)
        collection.call("load_collection", slow=True)

    def count(self) -> int:
        """As `Target.count`."""
        return self.collection.count(exactly=True)

    def sample(self, count: int) -> list[SamplePassage]:
        """As `Target.sample`: the order of rows, which are hashes, is random."""
        fields = [TITLE, TEXT, EMBEDDING]
        found = self.collection.call("query", filter="", limit=count, output_fields=fields)
        return [
            SamplePassage(row[TITLE], row[TEXT], np.array(row[EMBEDDING], np.float32))
            for row in found
        ]

    @property
    def efforts(self) -> tuple[int, int] | None:
        """As `Target.efforts`."""
        plan = self._plan
        return (plan.least, plan.most) if plan.parameter else None

    def search(self, queries: Embeddings, count: int, effort: int) -> list[list[float]]:
        """As `Target.search`."""
        found = self.collection.call(
            "search",
            slow=True,
            data=[*queries],
            anns_field=EMBEDDING,
            limit=count,
            search_params={"params": {self._plan.parameter: effort}},
        )
        return [[hit.distance for hit in hits] for hits in found]

    def set_state(self, state: str, effort: int | None = None) -> None:
        """As `Target.set_state`; a thorough search visits everything."""
        properties = {STATE: state}
        if state == COMPLETE:
            name = self._plan.parameter
            found = {FAST: {name: effort}, THOROUGH: {name: MOST_VISITED[name]}} if effort else {}
            properties[PARAMETERS] = json.dumps(found)
        self.collection.set_properties(properties, slow=True)


def _rows(
    documents: Iterator[SplitDocument],
    embeddings: Iterator[Embeddings],
    words: WordVectors | None,
    facets: Sequence[str | None],
) -> Iterator[Row]:
    """The rows of all documents, in their order, with the embeddings (dim,) of all passages."""
    for document in documents:
        of_document = np.stack([*islice(embeddings, len(document.passages))])
        yield from rows_of(document, document.passages, of_document, words, facets)
