"""The preloaded recorder, recorder.c, for Python: faults, and the log of all changes of files."""

import ctypes
import errno
import os
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path

_SOURCE = Path(__file__).with_name("recorder.c")
_LIBRARY, _PLACE = "recorder.so", "SWIFTLET_RECORDER"
_ENTRY = struct.Struct("iiiill")
CHANGES, GROWTH, WRITES, OPENS, READS = (1 << bit for bit in range(5))


class Op(IntEnum):
    """A change of files; the order is the one of recorder.c."""

    CREATE = 1
    WRITE = 2
    TRUNCATE = 3
    SYNC = 4
    RENAME = 5
    EXCHANGE = 6
    UNLINK = 7
    MKDIR = 8
    RMDIR = 9
    LINK = 10
    MARK = 11


@dataclass(frozen=True, slots=True)
class Entry:
    """One change of a file or of names; the offset of a truncation is the new length."""

    op: Op
    path: str
    other: str
    inode: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at one point: which calls count, the error, and whether it stays."""

    calls: int
    error: int = 0
    stays: bool = False
    shortens: bool = False


FAULTS = {
    "full disk": Fault(GROWTH, errno.ENOSPC, stays=True),
    "full disk after half a write": Fault(WRITES, errno.ENOSPC, stays=True, shortens=True),
    "short write": Fault(WRITES, shortens=True),
    "one error of the disk": Fault(CHANGES, errno.EIO),
    "a broken disk": Fault(CHANGES, errno.EIO, stays=True),
    "an unreadable block": Fault(READS, errno.EIO),
    "too many open files": Fault(OPENS, errno.EMFILE, stays=True),
}


def compile_into(folder: Path) -> None:
    """Compile the recorder, by the C compiler of this system."""
    command = [
        "cc",
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Werror",
        "-o",
        folder / _LIBRARY,
        _SOURCE,
    ]
    subprocess.run([*command, "-ldl", "-pthread"], check=True)


def run(module: str, arguments: Sequence[object], folder: Path) -> str:
    """Run a module in a process with the recorder that was compiled into `folder`.

    :returns: The last line that it prints.
    """
    library = f"{folder / _LIBRARY}"
    own = {"LD_PRELOAD": library, _PLACE: library, "TMPDIR": f"{folder}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", module, *map(str, arguments)]
    printed = subprocess.run(
        command, env={**os.environ, **own}, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    return printed.splitlines()[-1]


@cache
def _library() -> ctypes.CDLL:
    found = ctypes.CDLL(os.environ[_PLACE])
    found.recorder_struck_at.restype = ctypes.c_char_p
    found.recorder_log.restype = ctypes.c_void_p
    return found


def watch(directory: Path, *, record: bool = False) -> None:
    """See all changes below a directory from now on, without faults."""
    _library().recorder_watch(os.fsencode(directory), int(record))


def strike(number: int, fault: Fault) -> None:
    """Let the fault happen at the call with this number, from now on; 0 only counts."""
    each = fault
    _library().recorder_strike(number, each.calls, each.error, int(each.stays), int(each.shortens))


def end() -> str:
    """See nothing any more; the call that was struck, if one was."""
    _library().recorder_end()
    return os.fsdecode(_library().recorder_struck_at())


def mark(text: str) -> None:
    """Put a text into the log."""
    _library().recorder_mark(text.encode())


def log() -> list[Entry]:
    """All changes since `watch`."""
    size = ctypes.c_size_t()
    address = _library().recorder_log(ctypes.byref(size))
    return [*_entries(ctypes.string_at(address, size.value) if size.value else b"")]


def _entries(content: bytes) -> Iterator[Entry]:
    at = 0
    while at < len(content):
        op, *lengths, inode, offset = _ENTRY.unpack_from(content, at)
        at += _ENTRY.size
        parts = []
        for length in lengths:
            parts.append(content[at : at + length])
            at += length
        yield Entry(Op(op), os.fsdecode(parts[0]), os.fsdecode(parts[1]), inode, offset, parts[2])
