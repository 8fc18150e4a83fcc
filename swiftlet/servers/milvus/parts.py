"""The parts of an index on a Milvus server, as the stages of a search use them."""

import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from sys import maxsize
from threading import Lock
from typing import Any, Self

import numpy as np
from typing_extensions import override

from swiftlet.errors import FilterError, shown
from swiftlet.index.columns.facets import check_values
from swiftlet.index.columns.filters import Condition, Filter, first_without_values
from swiftlet.index.documents.store import StoredPassage
from swiftlet.index.parts import Counts, Selection
from swiftlet.index.vectors.vector_index import Rows, SearchParameters
from swiftlet.servers.milvus import schema
from swiftlet.servers.milvus.collection import Collection
from swiftlet.servers.milvus.expressions import (
    ALL,
    expression_of,
    with_several_values,
    with_values,
)
from swiftlet.servers.milvus.filter_fields import FilterFields
from swiftlet.servers.milvus.rows import Row, read_documents
from swiftlet.servers.parts import ServerParts, ServerPassages, gone
from swiftlet.servers.words import ServerWords
from swiftlet.types import Document, Embeddings, Passage

MOST_CANDIDATES = 16_384
"""The most rows that a request to Milvus gives."""

_MOST_WHOLE = 100
"""Up to this number of candidates, a search gets their passages, too: faster than asking twice."""

_MOST_IDS, _MOST_PASSAGES = 200_000, 20_000


class MilvusPassages(ServerPassages):
    """The passages of a collection, or of an expression.

    The latest rows that searches have found are kept. A row is always of the same document. Its
    passage may change, so a search replaces what earlier ones have found.
    """

    def __init__(
        self, collection: Collection, parameters: dict[str, Any], counts: tuple[int, int]
    ) -> None:
        """Search with these parameters, as `parameters_of` gives them.

        :param counts: The numbers of documents and passages.
        """
        self.collection, self.where, self._parameters = collection, "", parameters
        self.num_documents, self.num_passages = counts
        self._lock = Lock()
        self._ids: dict[int, str] = {}
        self._passages: dict[int, Row] = {}

    def restricted_to(self, expression: str) -> Self:
        """The passages of an expression alone; only the server knows how many there are."""
        found = copy(self)
        found.where = expression
        return found

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
        found = self.find_rows(*asked, fast)
        if len(found) < num_candidates and self._parameters:
            # The lists that were visited have too few of these rows: visit all.
            found = self.find_rows(*asked, most)
        scores = np.array([hit.distance for hit in found], np.float32)
        rows = np.array([hit.id for hit in found], np.int64)
        if len(rows) < num_candidates:
            return self._with_missed(embedding, scores, rows)
        return scores, rows

    def find_rows(
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
            self._note({hit.id: hit.fields for hit in found}, whole=whole)
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
        self._note({row: found[row] for row in missed.tolist()}, whole=False)
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
    def ids_at(self, rows: Rows) -> list[str]:
        ids = {row: self._ids.get(row) for row in rows.tolist()}
        if missing := [row for row, document_id in ids.items() if document_id is None]:
            found = self.collection.rows(missing, [schema.ROW, schema.DOCUMENT_ID])
            ids |= {row: fields[schema.DOCUMENT_ID] for row, fields in found.items()}
        return [ids[row] or "" for row in rows.tolist()]

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
    def titles(self, count: int) -> dict[str, str]:
        return {}  # the server is not asked

    def _note(self, found: Mapping[int, Row], *, whole: bool) -> None:
        """Keep the rows that a search has found, with their passages if they are `whole`."""
        with self._lock:
            for row, fields in found.items():
                self._ids[row] = fields[schema.DOCUMENT_ID]
                self._passages.pop(row, None)
                if whole:
                    self._passages[row] = fields
            for kept, most in ((self._ids, _MOST_IDS), (self._passages, _MOST_PASSAGES)):
                while len(kept) > most:
                    del kept[next(iter(kept))]


def _passage(row: Row, include_text: bool) -> StoredPassage:
    document_id, text = row[schema.DOCUMENT_ID], row[schema.TEXT] if include_text else ""
    place = row[schema.START], row[schema.END], row[schema.HEADING]
    passage = Passage(f"{document_id}#{row[schema.NUMBER]}", document_id, text, *place)
    return StoredPassage(passage, row[schema.TITLE], json.loads(row[schema.METADATA]))


@dataclass(frozen=True, kw_only=True)
class MilvusParts(ServerParts):
    """The parts of an index on a Milvus server."""

    store: MilvusPassages
    lexical: ServerWords | None = None
    filter_fields: FilterFields

    waiting_seconds = 0.03

    @override
    def selection(self, tree: Filter | None) -> Selection:
        if tree is None:
            return Selection(self.index, self.lexical, maxsize)
        expression = self._expression(tree)
        words = self.lexical and self.lexical.restricted_to(expression)
        return Selection(self.store.restricted_to(expression), words, maxsize)

    @override
    def document_ids(self, tree: Filter) -> list[str]:
        expression = f"{schema.NUMBER} == 0 and ({self._expression(tree)})"
        pages = self.store.collection.pages(expression, [schema.DOCUMENT_ID])
        return [row[schema.DOCUMENT_ID] for page in pages for row in page]

    @override
    def fields(self) -> tuple[str, ...]:
        return ()  # the server cannot list them

    @override
    def facets(self, fields: Sequence[str], tree: Filter) -> Counts:
        return {}  # the server cannot count values

    @override
    def check_groups(self, path: str, tree: Filter) -> None:
        has, fields = self.store.collection.has, self.filter_fields
        exists = has(with_values(path, fields))
        several = f"({with_several_values(path, fields)}) and ({self._expression(tree)})"
        check_values(path, exists=exists, several=exists and has(several))

    def _expression(self, tree: Filter) -> str:
        def exists(condition: Condition) -> bool:
            return self.store.collection.has(expression_of(condition, self.filter_fields))

        if (condition := first_without_values(tree, exists)) is not None:
            raise FilterError(
                f"the filter names {shown(condition.path)}, but no document has this field"
            )
        return expression_of(tree, self.filter_fields)
