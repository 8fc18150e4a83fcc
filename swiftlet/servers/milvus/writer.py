"""Puts and deletes documents of an index on a Milvus server."""

from collections.abc import Iterable, Sequence
from itertools import chain
from threading import Lock

from swiftlet.address import Address
from swiftlet.errors import ArtefactError, IndexServerError, RetrievalError, shown
from swiftlet.index.changes.log import Change
from swiftlet.index.updates.preparation import Preparation, encoder_details
from swiftlet.index.updates.writer import Changed, Writer, checked_ids
from swiftlet.manifest import Manifest
from swiftlet.servers.milvus.collection import Collection, manifest_of
from swiftlet.servers.milvus.filter_fields import FilterFields
from swiftlet.servers.milvus.rows import Row, rows_of, with_rows
from swiftlet.servers.milvus.schema import DOCUMENT_ID, FILTER_FIELDS, NUMBER, PASSAGES, row_of
from swiftlet.servers.milvus.word_writer import note_new_words, word_vectors
from swiftlet.servers.milvus.words import WordCounts
from swiftlet.servers.words import WordVectors


class MilvusWriter(Writer):
    """Changes a collection. Thread-safe; any number of writers may change it at a time.

    Searches of other clients see a change within seconds. `change` counts the documents that this
    writer has written or deleted.
    """

    def __init__(self, address: Address, preparation: Preparation) -> None:
        """Connect to the server.

        :raises IndexServerError: When it does not answer.
        :raises InvalidArgumentError: When there is no such collection, or not one of Swiftlet.
        """
        super().__init__(preparation)
        self._collection = Collection(address)
        self._writing = Lock()
        self._closed = False
        self._counts: WordCounts | None = None
        self.change = 0
        self.manifest()

    @property
    def place(self) -> Address:
        """As `Writer.place`."""
        return self._collection.address

    @property
    def num_documents(self) -> int:
        """As `Writer.num_documents`."""
        return self._collection.count(f"{NUMBER} == 0", exactly=True)

    def manifest(self) -> Manifest:
        """As `Writer.manifest`.

        :raises IndexServerError: When the server does not answer.
        """
        if self._closed:
            raise RetrievalError("the writer is closed: open the index again")
        return manifest_of(self._collection.description(), self.place)

    def append(self, changes: Sequence[Change], prepared_for: Manifest) -> Changed:
        """As `Writer.append`: first all new passages, then those that are left over are deleted.

        :raises IndexServerError: When the server refuses, or another document has the row of one.
        """
        put = [change for change in changes if change.document is not None]
        with self._writing:
            description = self._collection.description()
            if encoder_details(manifest_of(description, self.place)) != encoder_details(
                prepared_for
            ):
                raise ArtefactError(f"{self.place} was replaced meanwhile: write once more")
            before = self._passages_of([change.document_id for change in put])
            words = word_vectors(description)
            fields = FilterFields.of(description["properties"])
            rows = [*chain.from_iterable(_rows_of(change, words, fields) for change in put)]
            self._check_rows({row["row"]: row[DOCUMENT_ID] for row in rows})
            if (changed := with_rows(fields, rows)) != fields:
                self._collection.set_properties({FILTER_FIELDS: changed.as_property()})
            if words is not None:
                self._counts = self._counts or WordCounts(self.place)
                note_new_words(self._counts, rows)
            self._collection.call("upsert", data=rows)
            left_over = [
                row_of(change.document_id, number)
                for change in put
                for number in range(len(change.passages), before.get(change.document_id, 0))
            ]
            if left_over:
                self._collection.call("delete", ids=left_over)
            self._make_visible()
            self.change += len(put)
        return Changed(len(put), self.change)

    def delete(self, document_ids: Iterable[str]) -> Changed:
        """As `Writer.delete`."""
        ids = checked_ids(document_ids)
        with self._writing:
            known = self._passages_of(ids)
            rows = [
                row_of(each, number) for each, count in known.items() for number in range(count)
            ]
            if rows:
                self._collection.call("delete", ids=rows)
                self._make_visible()
            self.change += len(known)
        unknown = tuple(each for each in ids if each not in known)
        return Changed(len(known), self.change, unknown)

    def close(self) -> None:
        """As `Writer.close`."""
        self._closed = True

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


def _rows_of(change: Change, words: WordVectors | None, fields: FilterFields) -> Iterable[Row]:
    assert change.document is not None  # noqa: S101 - for the type checker
    return rows_of(change.document, change.passages, change.embeddings, words, fields.facets)
