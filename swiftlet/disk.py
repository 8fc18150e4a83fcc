"""The only place that writes to the disk: every other module that makes, changes, renames, syncs or
removes a file of an artefact does so by these functions, which say what is durable.

A test holds all packages to it. SQLite, tantivy and the libraries of models write by themselves:
their connections are opened here, and their finished files are synced here.
"""

import ctypes
import errno
import fcntl
import io
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from swiftlet.errors import ReadOnlyStorageError, StorageError

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NOT_PERMITTED = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def storage_errors(place: Path) -> Iterator[None]:
    """Turn an `OSError`, or an error of SQLite, into a `StorageError` that names the place."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        kind = ReadOnlyStorageError if error.errno in _NOT_PERMITTED else StorageError
        raise kind(f"cannot write {place}: {os.strerror(error.errno)}") from error
    except sqlite3.DatabaseError as error:
        raise StorageError(f"cannot write {place}: {error}") from error


def opened(path: Path, mode: str = "wb", **options: Any) -> IO[Any]:
    """Open a file for writing, as `Path.open`; `sync` it before it counts."""
    return path.open(mode, **options)


def write(path: Path, content: bytes | memoryview | str) -> None:
    """Write a whole file, text as UTF-8; it is not yet synced."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def append_lines(path: Path, lines: bytes, *, mode: int = 0o666) -> None:
    """Append whole lines to a file and sync them, or leave it as it was; it is made if need be.

    Several processes may do so at once. A line that one of them left unfinished ends first.

    :param mode: Who may read and write a new file; the umask of the process takes from it.
    """
    with open(path, "a+b", 0, opener=lambda name, flags: os.open(name, flags, mode)) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        left = memoryview(lines if file.read(1) in {b"", b"\n"} else b"\n" + lines)
        try:
            while left:
                left = left[file.write(left) or 0 :]
            sync(file)
        except OSError:
            file.truncate(size)
            raise
    if not size:
        sync(path.parent)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """No other block of any process runs meanwhile that locks this directory."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def overwrite(file: IO[Any], content: bytes, place: int) -> bool:
    """Write into an open file, from the byte `place`; false if only a part could be written."""
    return os.pwrite(file.fileno(), content, place) == len(content)


def sync(place: Path | IO[Any]) -> None:
    """Write a file to the disk, or the names in a directory, without its files."""
    if not isinstance(place, Path):
        place.flush()
        os.fsync(place.fileno())
        return
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(path: Path, target: Path) -> None:
    """Give a file or a directory another name, in the place of a file that has it.

    The name is on the disk when the directory is synced.
    """
    path.replace(target)


def exchange(first: Path, second: Path) -> None:
    """Swap two files or directories, at once where the file system can."""
    library = ctypes.CDLL(None, use_errno=True)
    if hasattr(library, "renameat2"):
        paths = os.fsencode(first), os.fsencode(second)
        if library.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0:
            return
        failure = ctypes.get_errno()
        if failure not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
            raise OSError(failure, os.strerror(failure), str(second))
    # No exchange on this platform or file system: the second rename follows at once, and a crash
    # in between leaves the earlier artefact under the name below.
    earlier = second.parent / f".{second.name}.earlier"
    rename(second, earlier)
    try:
        rename(first, second)
    except OSError:
        rename(earlier, second)
        raise
    rename(earlier, first)


def remove(path: Path, *, missing_ok: bool = False) -> None:
    """Remove a file."""
    path.unlink(missing_ok=missing_ok)


def remove_tree(path: Path, *, ignore_errors: bool = False) -> None:
    """Remove a directory with all that is in it."""
    shutil.rmtree(path, ignore_errors=ignore_errors)


def remove_directory(path: Path) -> None:
    """Remove an empty directory."""
    path.rmdir()


def make_directory(path: Path, *, parents: bool = False, exist_ok: bool = False) -> None:
    """Make a directory, as `Path.mkdir`; with `parents`, the new names are synced."""
    if not parents:
        path.mkdir(exist_ok=exist_ok)
    elif not (exist_ok and path.is_dir()):
        make_directory(path.parent, parents=True, exist_ok=True)
        path.mkdir(exist_ok=exist_ok)
        sync(path.parent)


def copy_tree(path: Path, target: Path) -> None:
    """Copy a directory to a new one."""
    shutil.copytree(path, target)


def copy(path: Path, target: Path) -> None:
    """Copy a file to a new one."""
    shutil.copyfile(path, target)


def open_lock(path: Path) -> int:
    """The descriptor of a file to lock, which is made if there is none."""
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)


def database(path: Path, **options: Any) -> sqlite3.Connection:
    """Open a SQLite file for writing; it is made if there is none."""
    connection: sqlite3.Connection = sqlite3.connect(path, **options)
    return connection


def array(path: Path, dtype: type[np.generic], shape: tuple[int, ...]) -> np.memmap[Any, Any]:
    """A new .npy file of zeros, mapped into memory for writing."""
    return np.lib.format.open_memmap(path, "w+", dtype, shape)


def save_array(path: Path, array: NDArray[np.generic]) -> None:
    """Write an array as a .npy file.

    :raises StorageError: When the file system refuses.
    """
    # Given a path, NumPy would not notice when the last block cannot be written.
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    with storage_errors(path):
        write(path, content.getbuffer())
