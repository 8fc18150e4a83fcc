"""The passages of an index on a Milvus server, as searches ask for them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from swiftlet.index.columns.filters import Condition, Filter
from swiftlet.index.documents.store import StoredPassage
from swiftlet.index.lexical.bm25 import SparseVector
from swiftlet.index.vectors.vector_index import Rows, SearchParameters
from swiftlet.servers.milvus import schema
from swiftlet.servers.milvus.collection import Collection, parameters_of
from swiftlet.servers.milvus.filters import ALL, FilterFields, expression_of, with_several_values
from swiftlet.servers.milvus.rows import Row, read_documents
from swiftlet.servers.milvus.words import WordCounts
from swiftlet.servers.passages import ServerPassages, gone
from swiftlet.types import Document, Embeddings, Passage

MOST_CANDIDATES = 16_384
"""The most rows that a request to Milvus gives."""

_MOST_WHOLE = 100
"""Up to this number of candidates, a search gets their passages, too: faster than asking twice."""

_MOST_PASSAGES = 20_000
_SCORED_TOGETHER = 1_000


class MilvusPassages(ServerPassages):
    """The passages of a collection, or of an expression.

    The passages of the latest rows are kept. They may change, so a search replaces what earlier
    ones have found.
    """

    everything = ""
    waiting_seconds = 0.03

    def __init__(
        self,
        collection: Collection,
        description: Mapping[str, Any],
        counts: tuple[int, int],
        words: WordCounts | None = None,
    ) -> None:
        """Search a collection with this description.

        :param counts: The numbers of documents and passages.
        :param words: The counts of words, if the collection has words.
        """
        super().__init__()
        self.collection, self._words = collection, words
        self._parameters = parameters_of(description)
        self.filter_fields = FilterFields.of(description["properties"])
        self.num_documents, self.num_passages = counts
        self.version = self.num_passages
        self._passages: dict[int, Row] = {}

    @override
    def search(self, embedding: Embeddings, num_candidates: int) -> tuple[Embeddings, Rows]:
        asked = embedding, schema.EMBEDDING, self.where, num_candidates
        most = self._parameters.get(schema.THOROUGH, {})
        growth = SearchParameters().growth(num_candidates)
        fast = {
            name: min(int(growth * value), most[name])
            for name, value in self._parameters.get(schema.FAST, {}).items()
        }
        if "ef" in fast:  # a search visits at least as many nodes of the graph as it finds
            fast = {"ef": max(fast["ef"], min(num_candidates, MOST_CANDIDATES))}
        found = self._hits(*asked, fast)
        if len(found) < num_candidates and self._parameters:
            # The lists that were visited have too few of these rows: visit all.
            found = self._hits(*asked, most)
        scores = np.array([hit.distance for hit in found], np.float32)
        rows = np.array([hit.id for hit in found], np.int64)
        if len(rows) < num_candidates:
            return self._with_missed(embedding, scores, rows)
        return scores, rows

    def _hits(
        self, vector: Any, field: str, expression: str, wanted: int, parameters: dict[str, Any]
    ) -> list[Any]:
        """The hits of the best rows of an expression by the product of a field with `vector`.

        There are fewer than `wanted` only if the search has found no more.
        """
        hits: list[Any] = []
        while True:
            asked = min(wanted - len(hits), MOST_CANDIDATES)
            whole = asked <= _MOST_WHOLE
            conditions = [f"({expression})"] if expression else []
            if hits:
                conditions.append(f"{schema.ROW} not in {[hit.id for hit in hits]}")
            (found,) = self.collection.call(
                "search",
                data=[vector],
                anns_field=field,
                limit=asked,
                filter=" and ".join(conditions),
                output_fields=schema.OF_HITS if whole else [schema.DOCUMENT_ID],
                search_params={"params": parameters},
            )
            self._keep({hit.id: hit.fields for hit in found}, whole=whole)
            hits += found
            if len(found) < asked or len(hits) == wanted:
                return sorted(hits, key=lambda hit: -hit.distance)

    def _with_missed(
        self, embedding: Embeddings, scores: Embeddings, rows: Rows
    ) -> tuple[Embeddings, Rows]:
        """Add the rows that an index of the server has missed, if it should have found all.

        Servers have an approximate index of their own for what was written a moment ago.
        """
        if not len(rows) < self.collection.count(self.where) <= MOST_CANDIDATES:
            return scores, rows
        pages = self.collection.pages(self.where or ALL, [schema.DOCUMENT_ID])
        found = {row[schema.ROW]: row for page in pages for row in page}
        missed = np.setdiff1d(np.array([*found], np.int64), rows)
        self._keep({row: found[row] for row in missed.tolist()}, whole=False)
        scores = np.concatenate((scores, self.scores(embedding, missed)))
        best_first = np.argsort(-scores, kind="stable")
        return scores[best_first], np.concatenate((rows, missed))[best_first]

    @override
    def scores(self, embedding: Embeddings, rows: Rows) -> Embeddings:
        found = self.collection.rows(rows.tolist(), [schema.ROW, schema.EMBEDDING])
        vectors = np.array([found[row][schema.EMBEDDING] for row in rows.tolist()], np.float32)
        scores: Embeddings = np.einsum("ij,j->i", vectors, embedding)
        return scores

    @override
    def read_ids(self, rows: list[int]) -> Mapping[int, str]:
        found = self.collection.rows(rows, [schema.ROW, schema.DOCUMENT_ID])
        return {row: fields[schema.DOCUMENT_ID] for row, fields in found.items()}

    @override
    def passages(self, rows: Sequence[int], *, include_text: bool = True) -> list[StoredPassage]:
        found = {row: self._passages.get(row) for row in rows}
        if missing := [row for row, fields in found.items() if fields is None]:
            found |= self.collection.rows(missing, schema.OF_HITS)
        if None in found.values():
            raise gone()
        return [_passage(fields, include_text) for row in rows if (fields := found[row])]

    @override
    def find(self, document_id: str) -> Document | None:
        found = read_documents(self.collection, [document_id])
        return found[document_id][0] if document_id in found else None

    @override
    def where_of(self, tree: Filter) -> str:
        return expression_of(tree, self.filter_fields)

    @override
    def exists(self, condition: Condition) -> bool:
        return self.collection.has(self.where_of(condition))

    @override
    def has_several(self, path: str, where: str) -> bool:
        several = with_several_values(path, self.filter_fields)
        return self.collection.has(f"({several}) and ({where})")

    @override
    def document_ids(self, where: str) -> list[str]:
        firsts = f"{schema.NUMBER} == 0 and ({where})"
        pages = self.collection.pages(firsts, [schema.DOCUMENT_ID])
        return [row[schema.DOCUMENT_ID] for page in pages for row in page]

    @override
    def word_counts(self, places: Sequence[int]) -> Mapping[int, int]:
        return self._words.of(places) if self._words else {}

    @override
    def best_by_words(self, vector: SparseVector, count: int) -> Sequence[tuple[int, float]]:
        hits = self._hits(vector, schema.WORDS, self.where, count, {})
        return [(hit.id, hit.distance) for hit in hits]

    @override
    def scored_by_words(self, vector: SparseVector, rows: Rows) -> Iterable[tuple[int, float]]:
        for start in range(0, len(rows), _SCORED_TOGETHER):
            part = rows[start : start + _SCORED_TOGETHER].tolist()
            asked = f"{schema.ROW} in {part}"
            for hit in self._hits(vector, schema.WORDS, asked, len(part), {}):
                yield hit.id, hit.distance

    def _keep(self, found: Mapping[int, Row], *, whole: bool) -> None:
        """Keep the ids of what a search has found, and the passages if the rows are `whole`."""
        self.note({row: fields[schema.DOCUMENT_ID] for row, fields in found.items()})
        with self._lock:
            for row, fields in found.items():
                self._passages.pop(row, None)
                if whole:
                    self._passages[row] = fields
            while len(self._passages) > _MOST_PASSAGES:
                del self._passages[next(iter(self._passages))]


def _passage(row: Row, include_text: bool) -> StoredPassage:
    document_id, text = row[schema.DOCUMENT_ID], row[schema.TEXT] if include_text else ""
    place = row[schema.START], row[schema.END], row[schema.HEADING]
    passage = Passage(f"{document_id}#{row[schema.NUMBER]}", document_id, text, *place)
    return StoredPassage(passage, row[schema.TITLE], json.loads(row[schema.METADATA]))
