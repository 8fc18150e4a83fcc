"""Writes artefact directories completely or not at all.

An artefact is written into a working directory beside its target, which is then renamed. If the
process is killed first, the earlier artefact stays as it was.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swiftlet import disk
from swiftlet.errors import (
    ArtefactError,
    CorruptIndexError,
    InvalidArgumentError,
    UnfinishedWriteError,
)

_LOCK_FILE = "lock"


def working_directory(target: Path) -> Path:
    """The hidden directory in which `target` is written, on the same file system."""
    return target.parent / f".{target.name}.partial"


def check_target(target: Path, *, overwrite: bool, kind: str | None = None) -> None:
    """Refuse a target that cannot or must not be written.

    :param kind: The kind of the artefact that is to be written; None stands for any.
    :raises InvalidArgumentError: When `target` exists and is not to be overwritten, is a file, or
        is a directory that holds anything but an artefact, of this kind.
    :raises StorageError: When it cannot be read.
    """
    if not target.exists():
        return
    if not target.is_dir():
        raise InvalidArgumentError(f"{target} exists and is not a directory")
    with disk.storage_errors(target):
        if not any(target.iterdir()):
            return
    if not overwrite:
        raise InvalidArgumentError(
            f"{target} exists; choose another place or pass --overwrite (in Python overwrite=True)"
        )
    if not (target / "manifest.json").is_file():
        raise InvalidArgumentError(
            f"{target} is not overwritten: it has no manifest.json, so it is no artefact"
        )
    with disk.storage_errors(target):
        earlier = _kind(target)
    if kind is not None and earlier not in {None, kind}:
        raise InvalidArgumentError(
            f"{target} is not overwritten: it is an artefact of the kind {earlier!r}, and not "
            f"{kind!r}; choose another place"
        )


def _kind(artefact: Path) -> str | None:
    """The kind that a manifest names; a damaged manifest names none."""
    try:
        return str(json.loads((artefact / "manifest.json").read_bytes())["kind"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


@contextmanager
def locked_working_directory(target: Path) -> Iterator[Path]:
    """Make, or open again, the working directory of `target`, and lock it during the block.

    The directory stays when the block ends, so that an interrupted build can be resumed.

    :raises ArtefactError: When another process is writing the same artefact.
    :raises StorageError: When the directory cannot be made.
    """
    directory = working_directory(target)
    occupied = ArtefactError(f"another process is writing {target}: wait until it ends, or stop it")
    with disk.storage_errors(directory):
        disk.make_directory(directory.parent, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            disk.make_directory(directory)
        try:
            lock = disk.open_lock(directory / _LOCK_FILE)
        except FileNotFoundError:  # the other process has just removed the directory
            raise occupied from None
    try:
        if not _lock(lock, directory / _LOCK_FILE):
            raise occupied
        yield directory
    finally:
        os.close(lock)


@contextmanager
def writer_lock(target: Path) -> Iterator[Path]:
    """`locked_working_directory`, removed at the end unless an interrupted build left files there.

    :raises ArtefactError: When another process is writing the same artefact.
    :raises StorageError: When the directory cannot be made.
    """
    with locked_working_directory(target) as directory:
        try:
            yield directory
        finally:
            # It was removed, perhaps with the artefact; or cannot be read, and stays for now.
            with suppress(OSError):
                if len([*directory.iterdir()]) == 1:
                    discard(directory)


def publish(artefact: Path, target: Path) -> None:
    """Put the finished directory `artefact` in the place of `target`, atomically.

    If `target` exists, the two are swapped: `artefact` then holds the earlier one, and the caller
    removes it.

    :raises StorageError: When the file system refuses.
    :raises UnfinishedWriteError: As `sync_name`.
    """
    with disk.storage_errors(target):
        flush(artefact)
        if target.exists():
            disk.exchange(artefact, target)
        else:
            disk.rename(artefact, target)
        sync_name(target)


def flush(directory: Path) -> None:
    """Write all files and folders of a directory to the disk.

    :raises OSError: When the file system refuses.
    """
    for entry in directory.rglob("*"):
        if entry.is_file() or entry.is_dir():
            disk.sync(entry)
    disk.sync(directory)


def sync_name(path: Path) -> None:
    """Write the name of a finished file or directory to the disk.

    :raises UnfinishedWriteError: When the file system refuses.
    """
    try:
        disk.sync(path.parent)
    except OSError as error:
        raise UnfinishedWriteError(
            f"{path} is written, but a loss of power may undo it, since its folder cannot be "
            f"synced ({error.strerror}): write it again"
        ) from error


@contextmanager
def published(target: Path, *, overwrite: bool, kind: str | None = None) -> Iterator[Path]:
    """An empty directory, published as `target` if the block ends without an error.

    :raises InvalidArgumentError: As `check_target`.
    :raises StorageError: When the file system refuses.
    """
    check_target(target, overwrite=overwrite, kind=kind)
    with locked_working_directory(target) as directory:
        artefact = directory / "artefact"
        try:
            with disk.storage_errors(target):
                # Another process may have published since.
                check_target(target, overwrite=overwrite, kind=kind)
                clear(directory)
                disk.make_directory(artefact)
                yield artefact
                publish(artefact, target)
        finally:
            discard(directory)


def clear(directory: Path) -> None:
    """Remove the files of an earlier, interrupted build from a working directory."""
    for entry in directory.iterdir():
        if entry.name == _LOCK_FILE:
            continue
        if entry.is_dir() and not entry.is_symlink():
            disk.remove_tree(entry)
        else:
            disk.remove(entry)


def discard(directory: Path) -> None:
    """Remove a working directory as far as possible, while its lock is held."""
    with suppress(OSError):
        clear(directory)
        # The lock file last: without it, another process may use the directory.
        disk.remove(directory / _LOCK_FILE)
        disk.remove_directory(directory)


def replace_file(path: Path, content: bytes | bytearray, mode: int | None = None) -> None:
    """Write a file in the place of an earlier one; an error leaves that as it was.

    It is on the disk when this returns.

    :param mode: Who may read it, from the first byte on; None stands for that of new files.
    :raises StorageError: When the file system refuses.
    :raises UnfinishedWriteError: As `sync_name`.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with disk.storage_errors(path):
        try:
            with disk.opened(partial) as file:
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
                file.write(content)
                disk.sync(file)
            disk.rename(partial, path)
            sync_name(path)
        finally:
            disk.remove(partial, missing_ok=True)


def map_arrays(folder: Path, names: Sequence[str]) -> list[NDArray[Any]]:
    """Map arrays that `disk.save_array` wrote into memory.

    :raises CorruptIndexError: When one cannot be read.
    """
    try:
        # Plain arrays: their elements are read several times as fast as those of `np.memmap`.
        return [
            np.asarray(np.load(folder / name, mmap_mode="r", allow_pickle=False)) for name in names
        ]
    except (OSError, ValueError) as error:
        raise CorruptIndexError(
            f"{folder} is damaged: {error}: restore the index from a copy"
        ) from error


def _lock(descriptor: int, path: Path) -> bool:
    """Lock the open file; false if another process has locked it, or removed it from `path`."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False
