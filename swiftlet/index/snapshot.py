"""Copies an index, with its changes at one moment, into one file."""

import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

from swiftlet import disk
from swiftlet.arguments import StrPath, path_of
from swiftlet.errors import (
    ArtefactError,
    InvalidArgumentError,
    StorageError,
)
from swiftlet.index.changes.last import LAST_FILE, check_is_own_file
from swiftlet.index.changes.log import (
    CHANGES_FILE,
    Changes,
    connect_changes,
    make_changes,
    note_last,
)
from swiftlet.manifest import FILE_NAME, Manifest, file_of, load_manifest, read_manifest
from swiftlet.publication import discard, locked_working_directory, replace_file, sync_name


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
    if out.exists() and not out.is_file():  # reading a pipe or a device may never end
        raise InvalidArgumentError(f"{out} is no regular file; choose another place")
    if out.exists() and not overwrite:
        raise InvalidArgumentError(
            f"{out} exists; choose another place or pass --overwrite (in Python overwrite=True)"
        )
    with disk.storage_errors(out):
        if out.exists() and not tarfile.is_tarfile(out):
            raise InvalidArgumentError(f"{out} is not overwritten: it is no tar archive")
    if out.resolve().is_relative_to(index.resolve()):
        raise InvalidArgumentError(f"{out} is inside the index {index}; choose another place")
    with locked_working_directory(out) as working, disk.storage_errors(out):
        try:
            archive = working / "snapshot.tar"
            while True:
                before = read_manifest(index, "index")
                try:
                    manifest = load_manifest(index, "index")
                    _write(archive, index, manifest, working)
                except (ArtefactError, FileNotFoundError):
                    if read_manifest(index, "index") == before:
                        raise
                    continue
                if read_manifest(index, "index") == before:  # else a merge has replaced the index
                    break
            disk.rename(archive, out)
            sync_name(out)
        finally:
            discard(working)
    return manifest


def _write(archive: Path, index: Path, manifest: Manifest, working: Path) -> None:
    name = index.resolve().name
    with disk.opened(archive) as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for part in (FILE_NAME, *manifest.files):
                tar.add(file_of(index, part), f"{name}/{part}", recursive=False)
            _copy_changes(index, working, manifest)
            # Unpacked over the index, the archive replaces its later changes: these are in a log
            # that SQLite would take for the log of the file below, by an index in shared memory.
            for suffix in ("-wal", "-shm"):
                tar.addfile(tarfile.TarInfo(f"{name}/{CHANGES_FILE}{suffix}"))
            for part in (CHANGES_FILE, LAST_FILE):
                tar.add(working / part, f"{name}/{part}")
        disk.sync(file)


def _copy_changes(index: Path, out: Path, manifest: Manifest) -> None:
    """Write the changes as they are at one moment, and which is the last, and verify them."""
    source, copy = index / CHANGES_FILE, out / CHANGES_FILE
    try:
        if check_is_own_file(source):
            with closing(connect_changes(source)) as changes:
                # Not into a file by way of a log of its own, which could be left beside it.
                replace_file(copy, changes.serialize())
        else:
            make_changes(out, manifest.content)
        with closing(Changes(out, manifest)) as copied:
            copied.count()
        with closing(connect_changes(copy)) as changes:
            note_last(changes, out, manifest.content)
    except sqlite3.Error as error:
        raise StorageError(f"cannot copy {source} to {copy}: {error}") from error
