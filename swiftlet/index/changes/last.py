"""The number and checksum of the last acknowledged change, in a file beside the changes.

SQLite leaves out the end of a damaged log without a word, so the log alone cannot tell that
changes are missing.
"""

from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from swiftlet.errors import CorruptIndexError

LAST_FILE = "changes.last"
_MOST_BYTES = 4096


class LastChange(NamedTuple):
    """The last change that was acknowledged; without changes, the checksum is empty."""

    number: int
    checksum: bytes

    def line(self, content: str) -> bytes:
        """A line of the file, beside the base with this `content`; always of the same length."""
        fields = f"{content} {self.number:020} {self.checksum.hex():64}"
        return f"{fields} {sha256(fields.encode()).hexdigest()}\n".encode()

    def place(self, content: str) -> int:
        """Where the line begins: one of two places, so that half a line leaves another one."""
        return self.number % 2 * len(self.line(content))


def read_last(directory: Path, content: str) -> LastChange | None:
    """The last acknowledged change of the base with this `content`.

    None if the file is missing, as in an index that an earlier Swiftlet changed, or belongs to
    another base.

    :raises CorruptIndexError: When the file has been altered.
    :raises OSError: When it cannot be read.
    """
    path, before = directory / LAST_FILE, None
    while True:
        if not check_is_own_file(path):
            return None
        try:
            with path.open("rb") as file:
                lines = file.read(_MOST_BYTES)
        except FileNotFoundError:  # a merge has replaced the index meanwhile
            return None
        if found := [*_whole(lines)]:
            return max((last for base, last in found if base == content), default=None)
        if lines == before:  # else a writer may have been writing them
            raise CorruptIndexError(f"{path} has been altered; {way_out(directory)}")
        before = lines


def _whole(lines: bytes) -> Iterator[tuple[str, LastChange]]:
    """The lines that are whole, with the content of their base."""
    for line in lines.splitlines(keepends=True):
        with suppress(ValueError):
            base, number, *checksum, _ = line.decode("ascii").split()
            last = LastChange(int(number), bytes.fromhex("".join(checksum)))
            if last.line(base) == line:
                yield base, last


def check_is_own_file(path: Path) -> bool:
    """Whether there is a file of changes.

    :raises CorruptIndexError: When it is a link, which may lead out of the index, or a pipe or a
        device, of which reading may never end.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise CorruptIndexError(f"{path} is no regular file: put the file itself in its place")
    return path.exists()


def way_out(directory: Path) -> str:
    """The end of a sentence that refuses damaged changes."""
    return f"swiftlet repair {directory} saves what can be read"
