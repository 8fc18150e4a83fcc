"""The changes of an index since its base was built, kept in memory for searches."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from swiftlet.index.changes.joint import (
    JointIndex,
    JointLexical,
    JointNumbers,
    JointStore,
    SurvivingRows,
)
from swiftlet.index.changes.log import Change
from swiftlet.index.columns.columns import Columns
from swiftlet.index.documents.numbers import DocumentNumbers, first_rows
from swiftlet.index.documents.passages import read_texts
from swiftlet.index.documents.store import StoredPassage
from swiftlet.index.lexical.writer import GrowingWords
from swiftlet.index.parts.local_parts import BaseParts, LocalParts, Segment
from swiftlet.index.vectors.vector_index import Mask, VectorIndex
from swiftlet.types import Document, Embeddings


@dataclass(frozen=True, kw_only=True)
class LivingParts(LocalParts):
    """The parts of a base together with its changes; immutable.

    `base_alive` (documents,) is by document number. `documents` are all that were put, `alive`
    (documents,) tells which were not replaced or deleted, and `owners` (passages,) are the
    documents of the passages of the changes.
    """

    base: BaseParts
    base_alive: Mask
    documents: Sequence[Document]
    alive: Mask
    owners: NDArray[np.int64]

    @property
    @override
    def num_rows(self) -> int:
        return self.base.index.size + len(self.owners)

    @property
    @override
    def num_changed_rows(self) -> int:  # type: ignore[override]
        return len(self.owners)

    @override
    def check(self) -> None:
        self.base.check()

    @property
    @override
    def segments(self) -> Sequence[Segment]:
        (base,) = self.base.segments

        def ids() -> Iterator[str]:
            return (document.document_id for document in self.documents)

        changed = Segment(self._changed_columns, self.alive, self.owners, ids)
        return [replace(base, alive=self.base_alive), changed]

    @cached_property
    def _changed_columns(self) -> Columns:
        return Columns.of(document.metadata for document in self.documents)


class Delta:
    """Collects the changes of a base. Not thread-safe; the parts that it makes are."""

    def __init__(self, base: BaseParts, details: Mapping[str, Any]) -> None:
        """Take a base and the details of its manifest."""
        self._base, self._details = base, details
        # The passages of a document are next to each other, in the order of the corpus.
        firsts = first_rows(self._base.passage_to_document)
        self._number_at = self._base.passage_to_document[firsts]
        self._base_alive = np.ones(len(firsts), dtype=np.bool)
        words = base.lexical
        self._words = None if words is None else GrowingWords(words.analysis)
        self._documents: list[Document] = []
        self._alive: list[bool] = []
        self._passages: list[StoredPassage] = []
        self._owners: list[int] = []
        self._embeddings: list[Embeddings] = []
        self._index: VectorIndex = base.index.empty_exact()
        self._newest: dict[str, int | None] = {}
        # By id: the number of the replaced document; for a new one, of the document before it.
        self._replaced: dict[str, float] = {}
        self._before: dict[str, float] = {}

    def extended(self, changes: Sequence[Change]) -> LivingParts:
        """The parts with all changes so far and `changes`, which follow them; at least one."""
        read = [self._add(change) for change in changes]
        base_alive, alive = self._base_alive.copy(), np.array(self._alive, dtype=np.bool)
        owners = np.array(self._owners, dtype=np.int64)
        rows = base_alive[self._base.passage_to_document], alive[owners]
        newest = {
            document_id: None if place is None else self._documents[place]
            for document_id, place in self._newest.items()
        }
        counts = int(base_alive.sum() + alive.sum()), int(rows[0].sum() + rows[1].sum())
        return LivingParts(
            encoder=self._base.encoder,
            index=self._joint_index(*rows),
            lexical=self._joint_words(read, *rows),
            columns=self._base.columns,
            passage_to_document=JointNumbers(
                self._base.passage_to_document, self._numbers()[owners]
            ),
            store=JointStore(self._base.store, newest, self._passages, counts),
            base=self._base,
            base_alive=base_alive,
            documents=self._documents[:],
            alive=alive,
            owners=owners,
        )

    def _add(self, change: Change) -> Iterable[str]:
        """Take a change in; what the encoder has read of each of its passages."""
        document_id, document = change.document_id, change.document
        if document_id not in self._newest:
            self._find(document_id)
        elif (earlier := self._newest[document_id]) is not None:
            self._alive[earlier] = False
        if document is None:
            self._newest[document_id] = None
            return []
        self._newest[document_id] = len(self._documents)
        self._embeddings.append(change.embeddings)
        passages = [document.passage(n, *span) for n, span in enumerate(change.passages)]
        self._passages += [StoredPassage(p, document.title, document.metadata) for p in passages]
        self._owners += [len(self._documents)] * len(passages)
        self._documents.append(document)
        self._alive.append(True)
        return read_texts(document, change.passages, self._details)

    def _find(self, document_id: str) -> None:
        """Find the place of an id in the base; a base document with this id is not found now."""
        if (place := self._base.store.number_of(document_id)) is not None:
            self._replaced[document_id] = number = self._number_at[place]
            self._base_alive[number] = False
        else:
            place = self._base.store.number_before(document_id)
            self._before[document_id] = -1 if place is None else self._number_at[place]

    def _numbers(self) -> DocumentNumbers:
        """The numbers of the changed documents: ties are ordered by id, also with the base."""
        numbers = dict(self._replaced)
        for before, group in groupby(sorted(self._before), self._before.__getitem__):
            ids = [*group]
            for rank, document_id in enumerate(ids, start=1):
                numbers[document_id] = before + rank / (len(ids) + 1)
        return np.array([numbers[document.document_id] for document in self._documents], np.float64)

    def _joint_index(self, base_alive: Mask, alive: Mask) -> JointIndex:
        base = self._base.index
        if self._index.size < len(alive):
            # Searches under way go on with the earlier one.
            self._index = base.empty_exact()
            self._embeddings = [np.concatenate(self._embeddings)]
            self._index.add(self._embeddings[0])
        survivors = base if base_alive.all() else SurvivingRows(base, base_alive)
        return JointIndex((survivors, SurvivingRows(self._index, alive)), (base, self._index))

    def _joint_words(
        self, read: Iterable[Iterable[str]], base_alive: Mask, alive: Mask
    ) -> JointLexical | None:
        base = self._base.lexical
        if base is None or self._words is None:
            return None
        survivors = base if base_alive.all() else base.restricted_to(base_alive)
        # Not all texts at once, since each has the title.
        words = self._words.with_texts(chain.from_iterable(read))
        return JointLexical(survivors, words.restricted_to(alive))
