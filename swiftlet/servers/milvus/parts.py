"""The parts of an index on a Milvus server, as the stages of a search use them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from sys import maxsize
from types import MappingProxyType
from typing import Any

import numpy as np

from swiftlet.errors import (
    ChangedMeanwhileError,
    CorruptIndexError,
    FilterError,
    UnknownDocumentError,
    shown,
)
from swiftlet.index.columns.filters import Condition, Filter, first_without_values
from swiftlet.index.columns.grouping import check_values
from swiftlet.index.documents.store import StoredPassage
from swiftlet.index.parts import Counts, SearchParts, Selection
from swiftlet.index.vectors.vector_index import Rows, SearchParameters
from swiftlet.servers.milvus.collection import Collection
from swiftlet.servers.milvus.expressions import (
    ALL,
    expression_of,
    with_several_values,
    with_values,
)
from swiftlet.servers.milvus.filter_fields import FilterFields
from swiftlet.servers.milvus.found_rows import MOST_CANDIDATES, FoundRows
from swiftlet.servers.milvus.schema import (
    AFTER,
    BEFORE,
    DOCUMENT_ID,
    EMBEDDING,
    END,
    FAST,
    HEADING,
    METADATA,
    NUMBER,
    OF_DOCUMENTS,
    PASSAGES,
    ROW,
    SECTIONS,
    START,
    TEXT,
    THOROUGH,
    TITLE,
    row_of,
)
from swiftlet.servers.milvus.words import MilvusWords
from swiftlet.types import Document, Embeddings, Passage


class MilvusRows:
    """The rows of an expression, or all, searched by the server. Thread-safe."""

    size = maxsize  # only the server knows

    def __init__(
        self,
        collection: Collection,
        found_rows: FoundRows,
        parameters: dict[str, Any],
        expression: str = "",
    ) -> None:
        """Search with these parameters, as `parameters_of` gives them."""
        self._collection, self._found_rows = collection, found_rows
        self._parameters, self._expression = parameters, expression

    def search(self, embedding: Embeddings, num_candidates: int) -> tuple[Embeddings, Rows]:
        """Scores (k,) and rows (k,), best first, as `VectorIndex.search`.

        k is less than `num_candidates` only if there are no more rows.
        """
        asked = embedding, EMBEDDING, self._expression, num_candidates
        most, growth = self._parameters.get(THOROUGH, {}), SearchParameters().growth(num_candidates)
        fast = {
            name: min(int(growth * value), most[name])
            for name, value in self._parameters.get(FAST, {}).items()
        }
        if "ef" in fast:  # a search visits at least as many nodes of the graph as it finds
            fast = {"ef": max(fast["ef"], min(num_candidates, MOST_CANDIDATES))}
        found = self._found_rows.search(*asked, fast)
        if len(found) < num_candidates and self._parameters:
            # The lists that were visited have too few of these rows: visit all.
            found = self._found_rows.search(*asked, most)
        scores = np.array([hit.distance for hit in found], np.float32)
        rows = np.array([hit.id for hit in found], np.int64)
        if len(rows) < num_candidates:
            return self._with_missed(embedding, scores, rows)
        return scores, rows

    def scores(self, embedding: Embeddings, rows: Rows) -> Embeddings:
        """The scores (n,) at `rows` (n,), as `VectorIndex.scores`."""
        found = self._collection.rows(rows.tolist(), [ROW, EMBEDDING])
        vectors = np.array([found[row][EMBEDDING] for row in rows.tolist()], np.float32)
        scores: Embeddings = np.einsum("ij,j->i", vectors, embedding)
        return scores

    def has_all(self, asked: int, found: int) -> bool:
        """As `SearchedRows.has_all`."""
        return found < asked

    def _with_missed(
        self, embedding: Embeddings, scores: Embeddings, rows: Rows
    ) -> tuple[Embeddings, Rows]:
        """Add the rows that an index of the server has missed, if it should have found all.

        Servers have an approximate index of their own for what was written a moment ago.
        """
        if not len(rows) < self._collection.count(self._expression) <= MOST_CANDIDATES:
            return scores, rows
        expression = self._expression or ALL
        pages = self._collection.pages(expression, [DOCUMENT_ID])
        ids = {row[ROW]: {DOCUMENT_ID: row[DOCUMENT_ID]} for page in pages for row in page}
        missed = np.setdiff1d(np.array([*ids], np.int64), rows)
        self._found_rows.note({row: ids[row] for row in missed.tolist()}, whole=False)
        scores = np.concatenate((scores, self.scores(embedding, missed)))
        best_first = np.argsort(-scores, kind="stable")
        return scores[best_first], np.concatenate((rows, missed))[best_first]


class MilvusStore:
    """The documents and passages of a collection. Thread-safe."""

    base = None
    changed: Mapping[str, Document | None] = MappingProxyType({})

    def __init__(
        self, collection: Collection, found_rows: FoundRows, counts: tuple[int, int]
    ) -> None:
        """`counts` are the numbers of documents and passages."""
        self._collection, self._found_rows = collection, found_rows
        self.num_documents, self.num_passages = counts

    def passages(self, rows: Sequence[int], *, include_text: bool = True) -> list[StoredPassage]:
        """As `Store.passages`.

        :raises ChangedMeanwhileError: When one is gone.
        """
        return [_passage(fields, include_text) for fields in self._found_rows.passages(rows)]

    def document(self, document_id: str) -> Document:
        """As `Store.document`."""
        documents = read_documents(self._collection, [document_id])
        if document_id not in documents:
            raise UnknownDocumentError(document_id)
        return documents[document_id][0]

    def titles(self, count: int) -> dict[str, str]:  # noqa: ARG002
        """As `Store.titles`; the server is not asked."""
        return {}

    def close(self) -> None:
        """As `Store.close`; the connection is shared, and ends with the process."""


@dataclass(frozen=True, kw_only=True)
class MilvusParts(SearchParts):
    """The parts of an index on a server."""

    collection: Collection
    index: MilvusRows
    passage_to_document: FoundRows
    store: MilvusStore
    lexical: MilvusWords | None = None
    parameters: dict[str, Any]
    dim: int
    filter_fields: FilterFields

    waiting_seconds = 0.03

    @property
    def num_rows(self) -> int:
        """As `SearchParts.num_rows`; the server hides what is deleted."""
        return self.store.num_passages

    def check(self) -> None:
        """As `SearchParts.check`."""
        if self.dim != self.encoder.dim:
            raise CorruptIndexError(
                f"{self.collection.address} has embeddings of {self.dim} dimensions, but the "
                f"encoder gives {self.encoder.dim}"
            )

    def selection(self, tree: Filter | None) -> Selection:
        """As `SearchParts.selection`; only the server knows how many documents pass."""
        if tree is None:
            return Selection(self.index, self.lexical, maxsize)
        expression = self._expression(tree)
        parts = self.collection, self.passage_to_document, self.parameters
        words = self.lexical and self.lexical.restricted_to(expression)
        return Selection(MilvusRows(*parts, expression), words, maxsize)

    def document_ids(self, tree: Filter) -> list[str]:
        """As `SearchParts.document_ids`."""
        expression = f"{NUMBER} == 0 and ({self._expression(tree)})"
        pages = self.collection.pages(expression, [DOCUMENT_ID])
        return [row[DOCUMENT_ID] for page in pages for row in page]

    def fields(self) -> tuple[str, ...]:
        """As `SearchParts.fields`; the server cannot list them."""
        return ()

    def facets(self, fields: Sequence[str], tree: Filter) -> Counts:  # noqa: ARG002
        """As `SearchParts.facets`; the server cannot count values."""
        return {}

    def check_groups(self, path: str, tree: Filter) -> None:
        """As `SearchParts.check_groups`."""
        exists = self.collection.has(with_values(path, self.filter_fields))
        several = (
            f"({with_several_values(path, self.filter_fields)}) and ({self._expression(tree)})"
        )
        check_values(path, exists=exists, several=exists and self.collection.has(several))

    def _expression(self, tree: Filter) -> str:
        def exists(condition: Condition) -> bool:
            return self.collection.has(expression_of(condition, self.filter_fields))

        if (condition := first_without_values(tree, exists)) is not None:
            raise FilterError(
                f"the filter names {shown(condition.path)}, but no document has this field"
            )
        return expression_of(tree, self.filter_fields)


def read_documents(
    collection: Collection, document_ids: Sequence[str], extra_fields: Sequence[str] = ()
) -> dict[str, tuple[Document, list[dict[str, Any]]]]:
    """The documents with these ids, each with the rows of its passages in order.

    :raises CorruptIndexError: When a passage is missing.
    """
    firsts = collection.rows(
        [row_of(document_id, 0) for document_id in document_ids], [DOCUMENT_ID, PASSAGES]
    )
    wanted = {
        row[DOCUMENT_ID]: [row_of(row[DOCUMENT_ID], number) for number in range(row[PASSAGES])]
        for row in firsts.values()
        if row[DOCUMENT_ID] in set(document_ids)
    }
    found = collection.rows(
        [row for rows in wanted.values() for row in rows], [*OF_DOCUMENTS, *extra_fields]
    )
    documents = {}
    for document_id, rows in wanted.items():
        if any(row not in found for row in rows):
            raise ChangedMeanwhileError(f"the document {shown(document_id)} has just changed")
        passages = [found[row] for row in rows]
        documents[document_id] = _document(passages), passages
    return documents


def _document(passages: Sequence[dict[str, Any]]) -> Document:
    """A document from its passages, which overlap, and the texts between them."""
    text = ""
    for passage in passages:
        text += passage[BEFORE]
        text += passage[TEXT][len(text) - passage[START] :]
    first = passages[0]
    return Document(
        first[DOCUMENT_ID],
        text + passages[-1][AFTER],
        first[TITLE],
        json.loads(first[METADATA]),
        json.loads(first[SECTIONS]),
    )


def _passage(row: dict[str, Any], include_text: bool) -> StoredPassage:
    passage_id, text = f"{row[DOCUMENT_ID]}#{row[NUMBER]}", row[TEXT] if include_text else ""
    passage = Passage(passage_id, row[DOCUMENT_ID], text, row[START], row[END], row[HEADING])
    return StoredPassage(passage, row[TITLE], json.loads(row[METADATA]))
