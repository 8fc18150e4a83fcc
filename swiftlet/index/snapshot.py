"""Copies an index, with its changes at one moment, into one file."""

import os
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

from swiftlet.arguments import StrPath, path_of
from swiftlet.errors import (
    ArtefactError,
    CorruptArtefactError,
    InvalidArgumentError,
    StorageError,
)
from swiftlet.index.changes.log import CHANGES_FILE, Changes, connect_changes, make_changes
from swiftlet.manifest import FILE_NAME, Manifest, load_manifest, read_manifest
from swiftlet.publication import discard, locked_working_directory, storage_errors


def snapshot(index: StrPath, out: StrPath, *, overwrite: bool = False) -> Manifest:
    """Write an index with its changes into the tar archive `out`; `tar -xf` restores it.

    A writer may go on meanwhile; the archive has the changes of one moment. It holds one directory
    of the index's name, complete or not at all.

    :param overwrite: Replace an existing archive.
    :returns: The manifest of the index.
    :raises ArtefactError: When the index is damaged.
    :raises InvalidArgumentError: When `out` is inside the index, or exists, unless it is a tar
        archive and is to be overwritten.
    :raises StorageError: When the file system refuses.
    """
    index, out = path_of("index", index), path_of("out", out)
    if out.is_dir():
        raise InvalidArgumentError(f"{out} is a directory; name a file, such as {out}/index.tar")
    if out.exists() and not overwrite:
        raise InvalidArgumentError(
            f"{out} exists; choose another place or pass --overwrite (in Python overwrite=True)"
        )
    if out.exists() and not tarfile.is_tarfile(out):
        raise InvalidArgumentError(f"{out} is not overwritten: it is no tar archive")
    if out.resolve().is_relative_to(index.resolve()):
        raise InvalidArgumentError(f"{out} is inside the index {index}; choose another place")
    with locked_working_directory(out) as working, storage_errors(out):
        try:
            archive = working / "snapshot.tar"
            while True:
                before = read_manifest(index, "index")
                try:
                    manifest = load_manifest(index, "index")
                    _write(archive, index, manifest, working / CHANGES_FILE)
                except (ArtefactError, FileNotFoundError):
                    if read_manifest(index, "index") == before:
                        raise
                    continue
                if read_manifest(index, "index") == before:  # else a merge has replaced the index
                    break
            archive.replace(out)
        finally:
            discard(working)
    return manifest


def _write(archive: Path, index: Path, manifest: Manifest, changes: Path) -> None:
    name = index.resolve().name
    with archive.open("wb") as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for part in (FILE_NAME, *manifest.files):
                found = (index / part).resolve()
                if not found.is_relative_to(index.resolve()):
                    raise CorruptArtefactError(
                        f"{index / part} is a link to {found}, which is no part of the index: put "
                        "the file itself in its place"
                    )
                tar.add(found, f"{name}/{part}", recursive=False)
            changes.unlink(missing_ok=True)
            if (index / CHANGES_FILE).exists():
                _copy(index / CHANGES_FILE, changes)
            else:
                make_changes(changes.parent, manifest.content)
            with closing(Changes(changes.parent, manifest)) as copied:
                copied.count()
            tar.add(changes, f"{name}/{CHANGES_FILE}")
            # Unpacked over the index, the archive replaces its later changes: these are in a log
            # that SQLite would take for the log of the file above.
            tar.addfile(tarfile.TarInfo(f"{name}/{CHANGES_FILE}-wal"))
        file.flush()
        os.fsync(file.fileno())


def _copy(path: Path, out: Path) -> None:
    """Copy a SQLite file as it is at one moment."""
    try:
        with (
            closing(connect_changes(path)) as changes,
            closing(sqlite3.connect(out)) as copy,
        ):
            changes.backup(copy)
    except sqlite3.Error as error:
        raise StorageError(f"cannot copy {path} to {out}: {error}") from error
