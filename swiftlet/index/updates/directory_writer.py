"""Changes an index: puts documents, deletes them, and merges the changes into a new base."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from swiftlet import disk
from swiftlet.address import Address
from swiftlet.arguments import StrPath, place_of, whole_number
from swiftlet.encoders.opening import EncoderSpec, Place, encoder_place
from swiftlet.errors import ArtefactError, RetrievalError, StorageError, UnfinishedWriteError
from swiftlet.index.changes.log import CHANGES_FILE, Change, Changes, ChangesWriter
from swiftlet.index.documents.numbers import PASSAGE_TO_DOCUMENT_FILE, first_rows
from swiftlet.index.documents.passages import read_texts
from swiftlet.index.documents.store import DOCUMENTS_FILE, DocumentStore
from swiftlet.index.documents.writer import hash_of
from swiftlet.index.lexical.analysis import check_analysis
from swiftlet.index.server import server_at
from swiftlet.index.synonyms import SYNONYMS
from swiftlet.index.updates.merge import EMBEDDINGS_FILE, merge_changes
from swiftlet.index.updates.writer import (
    Changed,
    KnownPassages,
    Preparation,
    Writer,
    checked_ids,
    encoder_details,
)
from swiftlet.index.vectors import open_index
from swiftlet.index.vectors.vector_index import VectorIndex
from swiftlet.manifest import (
    CHANGEABLE_FORMAT_VERSION,
    Manifest,
    change_details,
    load_manifest,
    read_manifest,
    write_manifest,
)
from swiftlet.progress import Progress
from swiftlet.publication import flush, publish, writer_lock
from swiftlet.types import Embeddings

_FEWEST_PASSAGES = 1_000
_PASSAGES_SHARE = 0.01
_DELETED_SHARE = 0.1
_PASSAGE_BITS = 32
_TUNED_DETAILS = ("weight", "weight_evidence", SYNONYMS)


class IndexWriter(Writer):
    """Changes one index directory. Thread-safe; an index has one writer at a time.

    A change is on the disk when its method returns. Searchers see it after `Searcher.refresh`.
    """

    _files: "_Files"
    _is_current = False
    """Whether `_files` are as the disk has them: after an error, they are opened again."""

    def __init__(self, index: Path, encoder: Place | None, *, threads: int | None = None) -> None:
        """Open the index, and lock it until `close` or the end of the process.

        :param encoder: The document encoder of the index, loaded when first needed; None
            takes the one that the index remembers.
        :param threads: Threads that encode; None takes all cores.
        :raises ArtefactError: When the index is damaged, or is being written by another process.
        :raises InvalidArgumentError: When its engine does not keep the embeddings of passages.
        :raises StorageError: When the index is on storage that cannot be written.
        """
        read_manifest(index, "index")  # refused before anything is made beside it
        self.index = self.place = index.resolve()
        """The directory that is written, without links."""
        self._encoder, self._threads = encoder, threads
        super().__init__(Preparation(encoder, threads, index))
        self._merging = Lock()
        self._writing = Lock()
        self._closed, self._owner = False, os.getpid()
        self._exit = ExitStack()
        try:
            self._working = self._exit.enter_context(writer_lock(self.index))
            self._clear_merge()
            manifest = load_manifest(self.index, "index")
            check_analysis(manifest.details)  # a merge needs it
            # Refused if the engine does not keep embeddings, which a merge needs.
            open_index(self.index, manifest).embeddings(np.zeros(1, dtype=np.int64))
            self._files = _Files(self.index)
            self._is_current = True
            self._exit.callback(self._close_files)
        except BaseException:
            self._exit.close()
            raise

    @override
    def manifest(self) -> Manifest:
        with self._writing:
            return self._current().manifest

    @override
    def append(self, changes: Sequence[Change], prepared_for: Manifest) -> Changed:
        with self._writing:
            files = self._current()
            if encoder_details(files.manifest) != encoder_details(prepared_for):
                raise ArtefactError(f"{self.index} was replaced meanwhile: write once more")
            self._append(files, changes)
            return Changed(len(changes), files.change)

    @override
    def delete(self, document_ids: Iterable[str]) -> Changed:
        ids = checked_ids(document_ids)
        with self._writing:
            files = self._current()
            gone = np.empty((0, files.manifest.width), dtype=np.float32)
            known = [each for each in ids if files.has(each)]
            self._append(files, [Change(0, each, None, (), gone) for each in known])
            found = frozenset(known)
            return Changed(
                len(known), files.change, tuple(each for each in ids if each not in found)
            )

    @property
    @override
    def change(self) -> int:  # type: ignore[override]
        return self._files.change

    @property
    @override
    def num_documents(self) -> int:
        return self._files.num_documents

    @property
    @override
    def needs_merge(self) -> bool:  # type: ignore[override]
        files = self._files
        most = max(_FEWEST_PASSAGES, _PASSAGES_SHARE * files.store.num_passages)
        touched = files.num_touched > _DELETED_SHARE * files.store.num_documents
        return (files.num_passages > most or touched) and files.num_documents > 0

    def values(self, field: str) -> list[tuple[str, Any, str]]:
        """The id of each document, its value of a field or None, and the name of its file.

        The file is the id, where the metadata has no other.
        """
        with self._writing:
            return [*self._current().values(field)]

    def known_passages(self, document_ids: Iterable[str]) -> KnownPassages:
        """The passages of these documents, for `put`: equal ones are not encoded again."""
        with self._writing:
            files = self._current()
            places = {
                hash_of(text): place
                for each in document_ids
                for place, text in files.passages(each)
            }
        return KnownPassages(places, partial(self._vectors_at, files))

    def _vectors_at(self, files: "_Files", places: NDArray[np.int64]) -> Embeddings | None:
        """The vectors (n, width) at places in `files`; None if a merge has put others there."""
        with self._writing:
            return files.vectors(places) if self._current() is files else None

    def compact(
        self,
        *,
        progress: Progress | None = None,
        merge: Callable[[Path, Path, int, Place | None], object] | None = None,
    ) -> bool:
        """Merge all changes so far into a new base; false if there is nothing to merge.

        Other threads may go on writing meanwhile. Nothing is encoded again. An interrupted merge
        leaves the index as it was.

        :param progress: Shows the progress, unless `merge` is given.
        :param merge: Calls `merge_changes` with the same arguments, perhaps in another process.
        :raises ArtefactError: When the index or the encoder is damaged.
        :raises StorageError: When the file system refuses.
        """
        with self._merging, disk.storage_errors(self._working):
            with self._writing:
                files = self._current()
                last, manifest = files.change, files.manifest
            if last == files.changes.first or not files.num_documents:
                return False
            artefact = self._working / "artefact"
            self._clear_merge()  # nothing can be removed without a descriptor
            try:
                self._clear_merge()  # one that failed may not have been able to
                disk.make_directory(artefact)
                place = self.index, artefact, last
                if merge is None:
                    known = bool(manifest.details["encoder_fingerprint"])
                    encoder = self._preparation.encoder(manifest) if known else None
                    merge_changes(*place, encoder, threads=self._threads, progress=progress)
                else:
                    merge(*place, self._encoder)
                flush(artefact)  # not while writers wait
                with self._writing:
                    self._publish(artefact, last, manifest.details)
            finally:
                self._clear_merge()
        return True

    @override
    def close(self) -> None:
        self._closed = True
        if self._owner == os.getpid():  # a copy would unlock the index, and end SQLite's log
            self._exit.close()

    def _append(self, files: "_Files", changes: Sequence[Change]) -> None:
        """Write the changes with the next numbers, in one transaction, while `_writing` is held."""
        if not changes:
            return
        numbered = [
            replace(change, number=number)
            for number, change in enumerate(changes, start=files.change + 1)
        ]
        if files.manifest.format_version < CHANGEABLE_FORMAT_VERSION:
            # An earlier Swiftlet would not see the changes, and find what is deleted.
            manifest = read_manifest(self.index, "index")  # its details may have changed
            manifest = replace(manifest, format_version=CHANGEABLE_FORMAT_VERSION)
            write_manifest(self.index, manifest)
            files.manifest = manifest
        found = [*files.found(numbered)]  # nothing can fail when they are written
        self._is_current = False
        try:
            files.file.append(numbered)
        except StorageError as error:
            self._is_current = not isinstance(error, UnfinishedWriteError)
            raise
        files.note(found)
        files.log = files.log_now()
        self._is_current = True

    def _publish(self, artefact: Path, last: int, before: Mapping[str, object]) -> None:
        """Put a merged base in the place of the index, with the changes after `last`."""
        files = self._files
        if files.identity != identity_of(self.index):
            raise ArtefactError(f"{self.index} was replaced meanwhile: write once more")
        details = read_manifest(self.index).details
        tuned = {name: details[name] for name in _TUNED_DETAILS if name in details}
        if any(tuned[name] != before.get(name) for name in tuned):
            change_details(artefact, tuned)
        if later := [*files.changes.after(last)]:
            with closing(ChangesWriter(artefact, read_manifest(artefact).content)) as file:
                file.append(later)
        self._is_current = False
        files.close_log()
        publish(artefact, self.index)
        with suppress(RetrievalError):  # the merge has succeeded; the next write tries again
            self._open()

    def _current(self) -> "_Files":
        """The files of the index as it is now: opened again after an error, or if replaced.

        :raises RetrievalError: When the writer is closed, or a copy that a fork has made.
        :raises ArtefactError: When there is no index any more, or it is damaged.
        """
        if self._owner != os.getpid():
            raise RetrievalError("the writer is of a process that was forked: open the index again")
        if self._closed:
            raise RetrievalError("the writer is closed: open the index again")
        files = self._files
        if is_other := files.identity != identity_of(self.index) or files.log != files.log_now():
            files.close_log()  # SQLite would share files beside it with the log in its place
            load_manifest(self.index, "index")
        if is_other or not self._is_current:
            self._open()
        return self._files

    def _open(self) -> None:
        """Open the files once more; after an error, the earlier ones stay."""
        opened, earlier = _Files(self.index), self._files
        self._files, self._is_current = opened, True
        earlier.close()

    def _close_files(self) -> None:
        self._files.close()

    def _clear_merge(self) -> None:
        disk.remove_tree(self._working / "artefact", ignore_errors=True)
        with suppress(OSError):
            disk.remove(self._working / EMBEDDINGS_FILE)


class _Files:
    """The open files of an index, and the counts of what they have."""

    def __init__(self, index: Path) -> None:
        """Open them all, or none.

        :raises ArtefactError: When the index is damaged.
        """
        self.identity = identity_of(index)
        self._index_path = index
        self.log = self.log_now()
        """The identity of the file of changes, which a snapshot may replace that is unpacked."""
        self.manifest = read_manifest(index, "index")
        self.changes = Changes(index, self.manifest)
        self.file = ChangesWriter(index, self.manifest.content)
        self.change = self.changes.first
        self.num_passages = self.num_touched = 0
        self._newest: dict[str, int | None] = {}
        """The number of the last change of each document; None where it was deleted."""
        self.store = DocumentStore(index / DOCUMENTS_FILE)
        try:
            self.note(self.found(self.changes.after(self.change)))
        except BaseException:
            self.close()
            raise

    @property
    def num_documents(self) -> int:
        put = sum(number is not None for number in self._newest.values())
        return self.store.num_documents - self.num_touched + put

    def log_now(self) -> tuple[int, int] | None:
        """The identity of the file of changes that is in the index now."""
        return identity_of(self._index_path / CHANGES_FILE)

    def has(self, document_id: str) -> bool:
        """Whether there is a document with this id now."""
        if document_id in self._newest:
            return self._newest[document_id] is not None
        return self.store.number_of(document_id) is not None

    def found(self, changes: Iterable[Change]) -> Iterator[tuple[Change, bool]]:
        """Changes, and whether each is the first one of a document of the base."""
        for change in changes:
            known = change.document_id in self._newest
            yield change, not known and self.store.number_of(change.document_id) is not None

    def note(self, found: Iterable[tuple[Change, bool]]) -> None:
        """Count changes that the file has."""
        for change, is_of_base in found:
            self.num_touched += is_of_base and change.document_id not in self._newest
            self._newest[change.document_id] = None if change.document is None else change.number
            self.num_passages += len(change.passages)
            self.change = change.number

    def values(self, field: str) -> Iterator[tuple[str, Any, str]]:
        """The id of each document, its value of a field, and the name of its file."""
        for document_id, value, file in self.store.values(field):
            if document_id not in self._newest:
                yield document_id, value, file
        for document_id, number in self._newest.items():
            if number is not None:
                document = self.changes.at(number).document
                metadata = {} if document is None else document.metadata
                yield document_id, metadata.get(field), str(metadata.get("file", document_id))

    def passages(self, document_id: str) -> Iterator[tuple[int, str]]:
        """The places of a document's vectors, for `vectors`, and what the encoder read of each."""
        number = self._newest.get(document_id, 0)
        if number is None:
            return
        if number:
            change = self.changes.at(number)
            if change.document is not None:
                read = read_texts(change.document, change.passages, self.manifest.details)
                for each, text in enumerate(read):
                    yield -(number << _PASSAGE_BITS | each), text
            return
        place = self.store.number_of(document_id)
        if place is not None:
            rows = range(*map(int, self._first_rows[place : place + 2]))
            for row, stored in zip(rows, self.store.passages(rows), strict=True):
                yield row, stored.read(self.manifest.details)

    def vectors(self, places: NDArray[np.int64]) -> Embeddings:
        """The vectors (n, width) at the places (n,) that `passages` gave."""
        found = np.empty((len(places), self.manifest.width), np.float32)
        of_base = places >= 0
        found[of_base] = self._index.embeddings(places[of_base])
        for at in np.flatnonzero(~of_base):
            number, each = divmod(-int(places[at]), 1 << _PASSAGE_BITS)
            found[at] = self.changes.at(number).embeddings[each]
        return found

    @cached_property
    def _index(self) -> VectorIndex:
        return open_index(self._index_path, self.manifest)

    @cached_property
    def _first_rows(self) -> NDArray[np.int64]:
        """The first row of each document of the base in the order of the corpus, and the end."""
        owners = np.load(self._index_path / PASSAGE_TO_DOCUMENT_FILE)
        return np.append(first_rows(owners), len(owners))

    def close(self) -> None:
        """Close all files."""
        self.close_log()
        self.store.close()

    def close_log(self) -> None:
        """Close the changes."""
        # The reading connection last: it leaves the files beside the changes. Without them, a
        # reader that may not write there takes the changes for files that never change.
        self.file.close()
        self.changes.close()


def identity_of(path: Path) -> tuple[int, int] | None:
    """What tells a directory or file from another one in its place; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def write(
    index: StrPath | Address, *, encoder: EncoderSpec | None = None, threads: int | None = None
) -> Writer:
    """Open an index for changes. A directory is locked until the writer is closed.

    :param index: A directory, or an address, as `swiftlet.open` takes it.
    :param encoder: The document encoder that the index was built with, as `swiftlet.build` takes
        it; None takes the one that the index remembers.
    :param threads: Threads that encode; None takes all cores.
    :raises ArtefactError: When the index is damaged, or another process is writing it.
    :raises InvalidArgumentError: When the index does not keep the embeddings of its passages.
    :raises StorageError: When the index is on storage that cannot be written.
    """
    threads = None if threads is None else whole_number("threads", threads, least=1)
    place, found = place_of("index", index), encoder_place(encoder)
    if isinstance(place, Path):
        return IndexWriter(place, found, threads=threads)
    return server_at(place).writer(place, Preparation(found, threads))
