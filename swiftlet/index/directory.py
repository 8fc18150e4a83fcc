"""An open index directory, which follows the changes and merges of a writer."""

import sys
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from time import monotonic

from swiftlet.arguments import StrPath, path_of
from swiftlet.encoders.encoder import Encoder
from swiftlet.errors import ArtefactError, CorruptArtefactError
from swiftlet.index.changes.delta import Delta
from swiftlet.index.changes.log import CHANGES_FILE, Changes
from swiftlet.index.columns.columns import COLUMN_FILES, COLUMNS_FOLDER, Columns
from swiftlet.index.documents.numbers import read_numbers
from swiftlet.index.documents.store import DOCUMENTS_FILE, DocumentStore
from swiftlet.index.lexical.index import LexicalIndex
from swiftlet.index.parts.local_parts import BaseParts
from swiftlet.index.parts.search_parts import SearchParts
from swiftlet.index.vectors import open_index
from swiftlet.manifest import (
    FILE_NAME,
    Manifest,
    load_manifest,
    read_manifest,
    verification,
)
from swiftlet.publication import writer_lock
from swiftlet.types import Document

_HISTORY_CHARACTERS = 8

_Identity = tuple[tuple[int, int], tuple[int, ...], int | None]


def documents(directory: Path) -> Iterator[Document]:
    """The documents of an index with its changes, one after the other.

    :raises ManifestError: When it is no index, or of a newer format.
    :raises CorruptArtefactError: When a file has been altered.
    """
    manifest = load_manifest(directory, "index")
    with (
        closing(Changes(directory, manifest)) as changes,
        closing(DocumentStore(directory / DOCUMENTS_FILE)) as store,
    ):
        changed = {each.document_id: each.document for each in changes.newest(sys.maxsize)}
        for document_id in store.document_ids():
            if document_id not in changed:
                yield store.document(document_id)
        yield from (document for document in changed.values() if document is not None)


class IndexDirectory:
    """The parts of an index directory as it is now; `refresh` follows it. Not thread-safe."""

    seconds_between_looks = 0.25
    manifest: Manifest
    base: BaseParts
    parts: SearchParts
    change: int
    _changes: Changes

    def __init__(self, path: Path, encoder: Encoder, *, readers: int = 1) -> None:
        """Open the directory for `readers` threads; verifies every file.

        :raises ManifestError: When it is no index, or of a newer format.
        :raises CorruptArtefactError: When a file has been altered.
        """
        self._path, self._encoder, self._readers = path, encoder, readers
        self._opened: _Identity | None = None
        self._damaged = self._is_rotten = False
        self._verified_at = monotonic()
        self._open()

    @property
    def keeps_state(self) -> bool:
        """Whether no file of the base was altered since it was opened."""
        return not self._is_rotten

    def refresh(self) -> bool:
        """Take in what a writer has done since; whether `parts` or `manifest` are new.

        Another megabyte of the base is verified, if the last one was `seconds_between_looks` ago.

        :raises ArtefactError: When the directory is damaged; the parts stay as they were.
        """
        while True:
            opened = self._identity()
            try:
                return self._follow(opened)
            except (ArtefactError, OSError):
                if self._identity() == opened:  # otherwise a merge has replaced the directory
                    raise

    @property
    def state(self) -> tuple[SearchParts, Manifest, int, str]:
        """The parts, the manifest, the last change, and a name of all three.

        The name is the beginning of the base's fingerprint; with changes, the number of the last
        one and a hash of all follow. After an index was restored, numbers may come again.
        """
        name = self.manifest.short_fingerprint
        if self.change != self._changes.first:
            name += f".{self.change}-{self._history.hexdigest()[:_HISTORY_CHARACTERS]}"
        return self.parts, self.manifest, self.change, name

    def close(self) -> None:
        """Close the changes; the parts stay open as long as they are used."""
        self._changes.close()

    def _follow(self, opened: _Identity | None) -> bool:
        """`refresh`, of the directory with this identity."""
        changed = False
        if self._damaged or opened not in (self._opened, None):
            manifest = read_manifest(self._path, "index")
            # `swiftlet tune` changes the manifest, but leaves the directory where it is; a first
            # change makes the file of changes, and a snapshot that is unpacked replaces it.
            same = False
            if opened is not None and (before := self._opened) is not None:
                same = opened[0] == before[0] and before[2] in (None, opened[2])
            if self._damaged or not same or manifest.content != self.manifest.content:
                self._changes.close()  # SQLite would share files beside it with those in its place
                self._open()
                return True
            changed = manifest != self.manifest
            self._opened, self.manifest = opened, manifest
        self._verify()
        if not self._changes.is_newer():
            return changed
        self._damaged = True
        if found := [*self._changes.after(self.change)]:
            self.parts = self._delta.extended(found)
            self.change = found[-1].number
            for change in found:
                self._history.update(change.checksum)
        self._damaged = False
        return bool(found) or changed

    def _open(self) -> None:
        while True:
            opened = self._identity()
            changes = None
            try:
                manifest = load_manifest(self._path, "index")
                base = self._base(manifest)
                changes = Changes(self._path, manifest)
                changes.is_newer()
                found = [*changes.after(changes.first)]
            except (ArtefactError, OSError):
                if changes is not None:
                    changes.close()
                if self._identity() == opened:
                    raise
                continue
            if self._identity() == opened:  # otherwise a merge has replaced the directory meanwhile
                break
            changes.close()
        delta = Delta(base, manifest.details)
        parts = delta.extended(found) if found else base
        # Nothing can fail from here: the earlier state stays, or the new one is whole.
        if self._opened is not None:
            self.close()
        self._opened, self._changes, self.manifest = opened, changes, manifest
        self.base, self.parts, self._delta = base, parts, delta
        self._history = sha256(b"".join(change.checksum for change in found))
        self.change = found[-1].number if found else changes.first
        self._verification = verification(self._path, manifest)
        self._damaged = self._is_rotten = False

    def _verify(self) -> None:
        if monotonic() < self._verified_at + self.seconds_between_looks:
            return
        self._verified_at = monotonic()
        try:
            if next(self._verification, self) is self:
                self._verification = verification(self._path, self.manifest)
        except CorruptArtefactError:
            self._damaged = self._is_rotten = True
            raise
        except ArtefactError:  # no descriptor was left, say: the next looks verify all files anew
            return

    def _base(self, manifest: Manifest) -> BaseParts:
        path = self._path
        index = open_index(path, manifest)
        store = DocumentStore(path / DOCUMENTS_FILE, readers=self._readers)
        try:
            base = BaseParts(
                encoder=self._encoder,
                index=index,
                lexical=LexicalIndex.of_index(path, manifest),
                columns=self._columns(manifest, store.num_documents),
                passage_to_document=read_numbers(path, store.num_documents),
                store=store,
            )
        except BaseException:
            store.close()
            raise
        # When no search uses it any more.
        weakref.finalize(base, base.store.close)
        return base

    def _columns(self, manifest: Manifest, num_documents: int) -> Columns | None:
        names = [f"{COLUMNS_FOLDER}/{name}" for name in COLUMN_FILES]
        if names[0] not in manifest.files:  # earlier indexes have none
            return None
        manifest.check_listed(self._path, *names)
        return Columns.open(self._path / COLUMNS_FOLDER, num_documents)

    def _identity(self) -> _Identity | None:
        """The identities of the directory, its manifest and its changes; None if there is none."""
        try:
            directory, manifest = self._path.stat(), (self._path / FILE_NAME).stat()
        except OSError:
            return None
        of_manifest = manifest.st_dev, manifest.st_ino, manifest.st_mtime_ns, manifest.st_size
        changes = None
        with suppress(OSError):
            changes = (self._path / CHANGES_FILE).stat().st_ino
        return (directory.st_dev, directory.st_ino), of_manifest, changes


@contextmanager
def locked_index(index: StrPath) -> Iterator[Path]:
    """The directory of an index without links, while no other process writes it.

    :raises ArtefactError: When another process does.
    """
    directory = path_of("index", index)
    read_manifest(directory, "index")  # refused before anything is made beside it
    directory = directory.resolve()
    with writer_lock(directory):
        yield directory
