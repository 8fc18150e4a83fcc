"""Changes an index: puts documents, deletes them, and merges the changes into a new base."""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock

import numpy as np
from typing_extensions import override

from swiftlet.address import Address
from swiftlet.arguments import StrPath, place_of, whole_number
from swiftlet.encoders.encoder import directory_of
from swiftlet.errors import ArtefactError, RetrievalError
from swiftlet.index.changes.log import Change, Changes, ChangesWriter
from swiftlet.index.directory import DOCUMENTS_FILE
from swiftlet.index.documents.store import DocumentStore
from swiftlet.index.server import server_at
from swiftlet.index.updates.merge import EMBEDDINGS_FILE, merge_changes
from swiftlet.index.updates.writer import Changed, Preparation, Writer, checked_ids, encoder_details
from swiftlet.index.vectors import open_index
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

_FEWEST_PASSAGES = 1_000
_PASSAGES_SHARE = 0.01
_DELETED_SHARE = 0.1
_TUNED_DETAILS = ("weight", "weight_evidence")


class IndexWriter(Writer):
    """Changes one index directory. Thread-safe; an index has one writer at a time.

    A change is on the disk when its method returns. Searchers see it after `Searcher.refresh`.
    """

    _manifest: Manifest
    _store: DocumentStore
    _changes: Changes
    _file: ChangesWriter
    _opened: tuple[int, int] | None

    def __init__(
        self, index: Path, encoder_directory: Path | None, *, threads: int | None = None
    ) -> None:
        """Open the index, and lock it until `close` or the end of the process.

        :param encoder_directory: The document encoder of the index, loaded when first needed; None
            takes the one that the index remembers.
        :param threads: Threads that encode; None takes all cores.
        :raises ArtefactError: When the index is damaged, or is being written by another process.
        :raises InvalidArgumentError: When its engine does not keep the embeddings of passages.
        :raises StorageError: When the index is on storage that cannot be written.
        """
        read_manifest(index, "index")  # refused before anything is made beside it
        self.index = self.place = index.resolve()
        """The directory that is written, without links."""
        self._encoder_directory, self._threads = encoder_directory, threads
        super().__init__(Preparation(encoder_directory, threads))
        self._merging = Lock()
        self._writing = Lock()
        self._num_passages = self._num_touched = 0
        self._closed = False
        self._exit = ExitStack()
        try:
            self._working = self._exit.enter_context(writer_lock(self.index))
            self._clear_merge()
            manifest = load_manifest(self.index, "index")
            # Refused if the engine does not keep embeddings, which a merge needs.
            open_index(self.index, manifest).embeddings(np.zeros(1, dtype=np.int64))
            self._open_files()
            self._exit.callback(self._close_files)
        except BaseException:
            self._exit.close()
            raise

    @override
    def manifest(self) -> Manifest:
        with self._writing:
            self._follow()
            return self._manifest

    @override
    def append(self, changes: Sequence[Change], prepared_for: Manifest) -> Changed:
        with self._writing:
            self._follow()
            if encoder_details(self._manifest) != encoder_details(prepared_for):
                raise ArtefactError(f"{self.index} was replaced meanwhile: write once more")
            self._append(changes)
            return Changed(len(changes), self.change)

    @override
    def delete(self, document_ids: Iterable[str]) -> Changed:
        ids = checked_ids(document_ids)
        gone = np.empty((0, self._manifest.width), dtype=np.float32)
        with self._writing:
            self._follow()
            known = [each for each in ids if self._exists(each)]
            self._append([Change(0, each, None, (), gone) for each in known])
            found = frozenset(known)
            return Changed(
                len(known), self.change, tuple(each for each in ids if each not in found)
            )

    @property
    @override
    def num_documents(self) -> int:
        return self._store.num_documents - self._num_touched + sum(self._exists_now.values())

    @property
    @override
    def needs_merge(self) -> bool:  # type: ignore[override]
        most = max(_FEWEST_PASSAGES, _PASSAGES_SHARE * self._store.num_passages)
        touched = self._num_touched > _DELETED_SHARE * self._store.num_documents
        return (self._num_passages > most or touched) and self.num_documents > 0

    def compact(
        self,
        *,
        progress: Progress | None = None,
        merge: Callable[[Path, Path, int, Path | None], object] | None = None,
    ) -> bool:
        """Merge all changes so far into a new base; false if there is nothing to merge.

        Other threads may go on writing meanwhile. Nothing is encoded again. An interrupted merge
        leaves the index as it was.

        :param progress: Shows the progress, unless `merge` is given.
        :param merge: Calls `merge_changes` with the same arguments, perhaps in another process.
        :raises ArtefactError: When the index or the encoder is damaged.
        :raises StorageError: When the file system refuses.
        """
        with self._merging:
            with self._writing:
                self._follow()
            last, before = self.change, self._manifest.details
            if last == self._changes.first or not self.num_documents:
                return False
            artefact = self._working / "artefact"
            try:
                artefact.mkdir()
                place = self.index, artefact, last
                if merge is None:
                    encoder = self._preparation.encoder(self._manifest)
                    merge_changes(*place, encoder, threads=self._threads, progress=progress)
                else:
                    merge(*place, self._encoder_directory)
                flush(artefact)  # not while writers wait
                with self._writing:
                    self._check_not_replaced()
                    self._publish(artefact, last, before)
            finally:
                self._clear_merge()
        return True

    @override
    def close(self) -> None:
        self._closed = True
        self._exit.close()

    def _append(self, changes: Sequence[Change]) -> None:
        """Write the changes with the next numbers, in one transaction, while `_writing` is held."""
        if not changes:
            return
        numbered = [
            replace(change, number=number)
            for number, change in enumerate(changes, start=self.change + 1)
        ]
        if self._manifest.format_version < CHANGEABLE_FORMAT_VERSION:
            # An earlier Swiftlet would not see the changes, and find what is deleted.
            manifest = read_manifest(self.index, "index")  # its details may have changed
            self._manifest = replace(manifest, format_version=CHANGEABLE_FORMAT_VERSION)
            write_manifest(self.index, self._manifest)
        self._file.append(numbered)
        self._note(numbered)

    def _note(self, changes: Iterable[Change]) -> None:
        """Keep the counts of what the file has now."""
        for change in changes:
            if change.document_id not in self._exists_now:
                self._num_touched += self._store.number_of(change.document_id) is not None
            self._exists_now[change.document_id] = change.document is not None
            self._num_passages += len(change.passages)
            self.change = change.number

    def _exists(self, document_id: str) -> bool:
        known = self._exists_now.get(document_id)
        return self._store.number_of(document_id) is not None if known is None else known

    def _publish(self, artefact: Path, last: int, before: Mapping[str, object]) -> None:
        """Put a merged base in the place of the index, with the changes after `last`."""
        details = read_manifest(self.index).details
        tuned = {name: details[name] for name in _TUNED_DETAILS if name in details}
        if any(tuned[name] != before.get(name) for name in tuned):
            change_details(artefact, tuned)
        if later := [*self._changes.after(last)]:
            with closing(ChangesWriter(artefact, read_manifest(artefact).content)) as file:
                file.append(later)
        self._close_files()
        try:
            publish(artefact, self.index)
        finally:
            self._open_files()

    def _follow(self) -> None:
        """Open the files again if another directory is in the place of the index.

        :raises RetrievalError: When the writer is closed.
        :raises ArtefactError: When there is no index any more.
        """
        if self._closed:
            raise RetrievalError("the writer is closed: open the index again")
        if self._opened != _identity(self.index):
            load_manifest(self.index, "index")
            self._close_files()
            self._open_files()

    def _check_not_replaced(self) -> None:
        """Refuse to go on if another directory has taken the place of the index.

        :raises ArtefactError: When it has.
        """
        if self._opened != _identity(self.index):
            raise ArtefactError(f"{self.index} was replaced meanwhile: write once more")

    def _open_files(self) -> None:
        self._opened = _identity(self.index)
        self._manifest = read_manifest(self.index, "index")
        self._store = DocumentStore(self.index / DOCUMENTS_FILE)
        self._changes = Changes(self.index, self._manifest)
        self._file = ChangesWriter(self.index, self._manifest.content)
        self.change = self._changes.first
        self._exists_now: dict[str, bool] = {}
        self._num_passages = self._num_touched = 0
        self._note(self._changes.after(self.change))

    def _close_files(self) -> None:
        # The reading connection last: it leaves the files beside the changes. Without them, a
        # reader that may not write there takes the changes for files that never change.
        for file in (self._file, self._changes, self._store):
            file.close()

    def _clear_merge(self) -> None:
        shutil.rmtree(self._working / "artefact", ignore_errors=True)
        with suppress(OSError):
            (self._working / EMBEDDINGS_FILE).unlink()


def _identity(directory: Path) -> tuple[int, int] | None:
    """What tells a directory from another one in its place; None if there is none."""
    try:
        status = directory.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def write(
    index: StrPath | Address, *, encoder: StrPath | None = None, threads: int | None = None
) -> Writer:
    """Open an index for changes. A directory is locked until the writer is closed.

    :param index: A directory, or an address, as `swiftlet.open` takes it.
    :param encoder: The directory of the document encoder that the index was built with; None takes
        the one that the index remembers.
    :param threads: Threads that encode; None takes all cores.
    :raises ArtefactError: When the index is damaged, or another process is writing it.
    :raises InvalidArgumentError: When the index does not keep the embeddings of its passages.
    :raises StorageError: When the index is on storage that cannot be written.
    """
    threads = None if threads is None else whole_number("threads", threads, least=1)
    place, found = place_of("index", index), directory_of(encoder)
    if isinstance(place, Path):
        return IndexWriter(place, found, threads=threads)
    return server_at(place).writer(place, Preparation(found, threads))
