"""The parts of a base and of the changes since then, as the parts of one index.

The rows of the changes follow the rows of the base. A deleted or replaced passage keeps its row,
and is not found.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice

import numpy as np
from typing_extensions import override

from swiftlet.errors import UnknownDocumentError
from swiftlet.index.columns.columns import Columns
from swiftlet.index.columns.filters import Filter
from swiftlet.index.documents.numbers import DocumentNumbers
from swiftlet.index.documents.store import DocumentStore, StoredPassage
from swiftlet.index.lexical.index import AllWords, LexicalIndex, LexicalQuery
from swiftlet.index.vectors.vector_index import (
    NO_SYNONYMS,
    AllRows,
    Mask,
    Rows,
    SearchedRows,
    Synonyms,
    VectorIndex,
    WordQuery,
)
from swiftlet.types import Document, Embeddings, Span

_SURPLUS = 1.25
_WIDENING = 4


class SurvivingRows(SearchedRows):
    """The rows of a vector index that are not deleted. Thread-safe.

    A search fetches some more rows: while few are deleted, that is faster than a restriction.
    """

    def __init__(self, index: VectorIndex, alive: Mask) -> None:
        """Leave out the rows of `index` that are not `alive` (size,)."""
        self.size = int(np.count_nonzero(alive))
        self._index, self._alive = index, alive
        self._share = _SURPLUS * index.size / max(1, self.size)

    @override
    def search(self, embedding: Embeddings, num_candidates: int) -> tuple[Embeddings, Rows]:
        if not self.size:
            return np.empty(0, np.float32), np.empty(0, np.int64)
        wanted = float(num_candidates) if num_candidates < self.size else self._index.size
        while True:
            wanted = min(self._index.size, int(wanted * self._share))
            scores, rows = self._index.search(embedding, wanted)
            alive = self._alive[rows]
            if wanted == self._index.size or np.count_nonzero(alive) >= num_candidates:
                return scores[alive][:num_candidates], rows[alive][:num_candidates]
            wanted *= _WIDENING

    @override
    def scores(self, embedding: Embeddings, rows: Rows) -> Embeddings:
        return self._index.scores(embedding, rows)


class JointIndex(AllRows):
    """The rows of a base and the rows of its changes, searched as one index. Thread-safe."""

    def __init__(
        self, parts: tuple[SearchedRows, SearchedRows], whole: tuple[VectorIndex, VectorIndex]
    ) -> None:
        """Search `parts`, which are rows of `whole`: of the base, and of the changes."""
        self._parts, self._whole = parts, whole
        self.size = sum(part.size for part in parts)

    @override
    def search(self, embedding: Embeddings, num_candidates: int) -> tuple[Embeddings, Rows]:
        found = [part.search(embedding, num_candidates) for part in self._parts]
        return _joined(found, self._whole[0].size, num_candidates)

    @override
    def scores(self, embedding: Embeddings, rows: Rows) -> Embeddings:
        base, changed = _split(rows, self._whole[0].size)
        parts = ((self._parts[0], base), (self._parts[1], changed))
        return np.concatenate([part.scores(embedding, each) for part, each in parts if len(each)])

    @override
    def restricted_to(self, allowed: Mask) -> "JointIndex":
        base, changes = self._whole
        masks = allowed[: base.size], allowed[base.size :]
        return JointIndex(
            (base.restricted_to(masks[0]), changes.restricted_to(masks[1])), self._whole
        )


class JointLexical(AllWords):
    """The words of a base and the words of its changes, searched as one index. Thread-safe."""

    def __init__(self, base: LexicalIndex, changes: LexicalIndex) -> None:
        self._base, self._changes = base, changes
        self.size = base.size + changes.size

    @override
    def parse(
        self, text: str, *, exact: bool = False, synonyms: Synonyms = NO_SYNONYMS
    ) -> "JointQuery":
        """The query for a text; words have the same weight in both parts."""
        words = self._base.words(text, self._changes, exact=exact, synonyms=synonyms)
        parts = self._base.query(words), self._changes.query(words)
        return JointQuery(parts, self._base.num_rows)

    @override
    def restricted_to(
        self, allowed: Mask, tree: Filter | None = None, columns: Columns | None = None
    ) -> "JointLexical":
        end = self._base.num_rows
        base = self._base.restricted_to(allowed[:end], tree, columns)
        return JointLexical(base, self._changes.restricted_to(allowed[end:]))


class JointQuery(WordQuery):
    """The words of a query, to be searched in a base and its changes."""

    def __init__(self, parts: tuple[LexicalQuery, LexicalQuery], end: int) -> None:
        """The query for each part; the rows of the base are below `end`."""
        self._parts, self._end = parts, end

    @override
    def search(self, num_candidates: int) -> tuple[Embeddings, Rows]:
        found = [part.search(num_candidates) for part in self._parts]
        return _joined(found, self._end, num_candidates)

    @override
    def scores(self, rows: Rows) -> Embeddings:
        split = zip(self._parts, _split(rows, self._end), strict=True)
        return np.concatenate([part.scores(each) for part, each in split if len(each)])

    @override
    def highlights(self, text: str) -> tuple[Span, ...]:
        return self._parts[0].highlights(text)


class JointNumbers:
    """The document numbers of all rows; changes have numbers between the base's numbers."""

    def __init__(self, base: DocumentNumbers, changes: DocumentNumbers) -> None:
        self._base, self._changes = base, changes

    def __getitem__(self, rows: Rows) -> DocumentNumbers:
        """The numbers (k,) of the documents at `rows` (k,)."""
        changed = rows >= len(self._base)
        numbers = np.empty(len(rows), dtype=np.float64)
        numbers[~changed] = self._base[rows[~changed]]
        numbers[changed] = self._changes[rows[changed] - len(self._base)]
        return numbers


class JointStore:
    """The documents of a base and of its changes. Thread-safe."""

    def __init__(
        self,
        base: DocumentStore,
        documents: dict[str, Document | None],
        passages: Sequence[StoredPassage],
        counts: tuple[int, int],
    ) -> None:
        """Read `documents`, None where they are deleted, in preference to the base's documents.

        `counts` are the numbers of documents and passages that can be found.
        """
        self.base, self.changed, self._passages = base, documents, passages
        self.num_documents, self.num_passages = counts

    def passages(self, rows: Sequence[int], *, include_text: bool = True) -> list[StoredPassage]:
        """The passages at `rows`, in that order, as `DocumentStore.passages`."""
        end = self.base.num_passages
        wanted = [row for row in rows if row < end]
        of_base = iter(self.base.passages(wanted, include_text=include_text) if wanted else ())
        found = [next(of_base) if row < end else self._passages[row - end] for row in rows]
        if include_text:
            return found
        return [each._replace(passage=replace(each.passage, text="")) for each in found]

    def document(self, document_id: str) -> Document:
        """The document with this id, as `DocumentStore.document`."""
        if not isinstance(document_id, str) or document_id not in self.changed:
            return self.base.document(document_id)
        found = self.changed[document_id]
        if found is None:
            raise UnknownDocumentError(document_id)
        return found

    def titles(self, count: int) -> dict[str, str]:
        """The titles of at most `count` documents by their ids, changed documents first."""
        put = ((name, each.title) for name, each in self.changed.items() if each is not None)
        base = self.base.titles(count).items()
        kept = ((name, title) for name, title in base if name not in self.changed)
        return dict(islice(chain(islice(put, count // 2), kept), count))

    def close(self) -> None:
        """Close the store of the base."""
        self.base.close()


def _joined(
    found: Sequence[tuple[Embeddings, Rows]], end: int, most: int
) -> tuple[Embeddings, Rows]:
    """The best `most` of both parts; the rows of the second follow the first's `end`."""
    (base_scores, base_rows), (scores, rows) = found
    if not len(rows):
        return base_scores, base_rows
    scores = np.concatenate((base_scores, scores))
    best = np.argsort(-scores, kind="stable")[:most]
    return scores[best], np.concatenate((base_rows, rows + end))[best]


def _split(rows: Rows, end: int) -> tuple[Rows, Rows]:
    """Ascending rows of the base, and rows of the changes by their own numbers."""
    at = int(np.searchsorted(rows, end))
    return rows[:at], rows[at:] - end
