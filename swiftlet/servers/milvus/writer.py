"""Puts and deletes documents of an index on a Milvus server."""

from collections.abc import Iterable, Sequence
from itertools import chain
from threading import Lock

from typing_extensions import override

from swiftlet.address import Address
from swiftlet.errors import IndexServerError, shown
from swiftlet.index.changes.log import Change
from swiftlet.index.updates.writer import Changed, Preparation, checked_ids
from swiftlet.manifest import Manifest
from swiftlet.servers.milvus.collection import Collection, manifest_of
from swiftlet.servers.milvus.filter_fields import FilterFields
from swiftlet.servers.milvus.rows import rows_of, with_rows
from swiftlet.servers.milvus.schema import DOCUMENT_ID, FILTER_FIELDS, NUMBER, PASSAGES, row_of
from swiftlet.servers.milvus.words import WordCounts, word_vectors
from swiftlet.servers.writer import ServerWriter


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
        self.manifest()

    @property
    @override
    def num_documents(self) -> int:
        return self._collection.count(f"{NUMBER} == 0", exactly=True)

    @override
    def _manifest_now(self) -> Manifest:
        return manifest_of(self._collection.description(), self.place)

    @override
    def append(self, changes: Sequence[Change], prepared_for: Manifest) -> Changed:
        """First all new passages are written, then those that are left over are deleted.

        :raises IndexServerError: When the server refuses, or another document has the row of one.
        """
        put = [(document, change) for change in changes if (document := change.document)]
        with self._writing:
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
            self._check_rows({row["row"]: row[DOCUMENT_ID] for row in rows})
            if (changed := with_rows(fields, rows)) != fields:
                self._collection.set_properties({FILTER_FIELDS: changed.as_property()})
            if words is not None:
                self._counts = self._counts or WordCounts(self.place)
                self._counts.note_new(rows)
            self._collection.call("upsert", data=rows)
            left_over = [
                row_of(change.document_id, number)
                for _, change in put
                for number in range(len(change.passages), before.get(change.document_id, 0))
            ]
            self._delete(left_over)
            self._make_visible()
            self.change += len(put)
        return Changed(len(put), self.change)

    @override
    def delete(self, document_ids: Iterable[str]) -> Changed:
        ids = checked_ids(document_ids)
        with self._writing:
            known = self._passages_of(ids)
            self._delete([row_of(each, n) for each, count in known.items() for n in range(count)])
            self._make_visible()
            self.change += len(known)
        unknown = tuple(each for each in ids if each not in known)
        return Changed(len(known), self.change, unknown)

    def _delete(self, rows: list[int]) -> None:
        if rows:
            self._collection.call("delete", ids=rows)

    def _make_visible(self) -> None:
        """Wait until the server has taken in what was written, so that the next search finds it."""
        self._collection.rows([0], [DOCUMENT_ID], exactly=True)

    def _passages_of(self, document_ids: Sequence[str]) -> dict[str, int]:
        """The number of passages of those documents that exist."""
        firsts = [row_of(document_id, 0) for document_id in document_ids]
        found = self._collection.rows(firsts, [DOCUMENT_ID, PASSAGES], exactly=True)
        counts = {row[DOCUMENT_ID]: row[PASSAGES] for row in found.values()}
        return {each: counts[each] for each in document_ids if each in counts}

    def _check_rows(self, owners: dict[int, str]) -> None:
        """Refuse passages whose rows belong to another document: their hashes are the same."""
        for row, found in self._collection.rows([*owners], [DOCUMENT_ID]).items():
            if found[DOCUMENT_ID] != owners[row]:
                raise IndexServerError(
                    f"the documents {shown(owners[row])} and {shown(found[DOCUMENT_ID])} have the "
                    "same hash: give one of them another id"
                )
