"""Searches of a collection, and what the latest of them have found."""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swiftlet.errors import ChangedMeanwhileError
from swiftlet.index.vectors.vector_index import Rows
from swiftlet.servers.milvus.collection import Collection
from swiftlet.servers.milvus.schema import DOCUMENT_ID, OF_HITS, ROW

MOST_CANDIDATES = 16_384
"""The most rows that a request to Milvus gives."""

_MOST_WHOLE = 100
"""Up to this number of candidates, a search gets their passages, too: faster than asking twice."""

_MOST_IDS, _MOST_PASSAGES = 200_000, 20_000


class FoundRows:
    """Rows that searches have found, with their documents and passages. Thread-safe.

    A row is always of the same document. Its passage may change, so a search replaces what earlier
    ones have found.
    """

    def __init__(self, collection: Collection) -> None:
        self._collection, self._lock = collection, Lock()
        self._ids: dict[int, str] = {}
        self._passages: dict[int, dict[str, Any]] = {}

    def search(
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
                conditions.append(f"{ROW} not in {[hit.id for hit in hits]}")
            (found,) = self._collection.call(
                "search",
                data=[vector],
                anns_field=field,
                limit=asked,
                filter=" and ".join(conditions),
                output_fields=OF_HITS if whole else [DOCUMENT_ID],
                search_params={"params": parameters},
            )
            self.note({hit.id: hit.fields for hit in found}, whole=whole)
            hits += found
            if len(found) < asked or len(hits) == wanted:
                return sorted(hits, key=lambda hit: -hit.distance)

    def note(self, found: Mapping[int, dict[str, Any]], *, whole: bool) -> None:
        """Keep the rows that a search has found, with their passages if they are `whole`."""
        with self._lock:
            for row, fields in found.items():
                self._ids[row] = fields[DOCUMENT_ID]
                self._passages.pop(row, None)
                if whole:
                    self._passages[row] = fields
            for kept, most in ((self._ids, _MOST_IDS), (self._passages, _MOST_PASSAGES)):
                while len(kept) > most:
                    del kept[next(iter(kept))]

    def __getitem__(self, rows: Rows) -> NDArray[np.int32]:
        """Numbers (k,) of the documents at `rows` (k,), in the order of the ids among these."""
        ids = {row: self._ids.get(row) for row in rows.tolist()}
        if missing := [row for row, document_id in ids.items() if document_id is None]:
            found = self._collection.rows(missing, [ROW, DOCUMENT_ID])
            ids |= {row: found[row][DOCUMENT_ID] if row in found else "" for row in missing}
        _, numbers = np.unique(
            np.array([ids[row] for row in rows.tolist()], dtype=object), return_inverse=True
        )
        return numbers.astype(np.int32)

    def passages(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """What hits have of the passages at `rows`, in that order.

        :raises ChangedMeanwhileError: When one is gone.
        """
        found = {row: self._passages.get(row) for row in rows}
        if missing := [row for row, fields in found.items() if fields is None]:
            found |= self._collection.rows(missing, OF_HITS)
        if None in found.values():
            raise ChangedMeanwhileError("documents were deleted during the search: search again")
        return [fields for row in rows if (fields := found[row]) is not None]
