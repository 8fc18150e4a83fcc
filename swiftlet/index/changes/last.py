"""The number and checksum of the last acknowledged change, in a file beside the changes.

SQLite leaves out the end of a damaged log without a word, so the log alone cannot tell that
changes are missing.
"""

from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from swiftlet.errors import CorruptIndexError

LAST_FILE = "changes.last"


class LastChange(NamedTuple):
    """The last change that was acknowledged; without changes, the checksum is empty."""

    number: int
    checksum: bytes

    def line(self, content: str) -> bytes:
        """What the file has, beside the base with this `content`; always of the same length."""
        # Less than a sector: it is written in place, completely or not at all.
        fields = f"{content} {self.number:020} {self.checksum.hex():64}"
        return f"{fields} {sha256(fields.encode()).hexdigest()}\n".encode()


def read_last(directory: Path, content: str) -> LastChange | None:
    """The last acknowledged change of the base with this `content`.

    None if the file is missing, as in an index that an earlier Swiftlet changed, or belongs to
    another base.

    :raises CorruptIndexError: When the file has been altered.
    :raises OSError: When it cannot be read.
    """
    path, before = directory / LAST_FILE, None
    while True:
        try:
            line = path.read_bytes()
            base, number, *checksum, _ = line.decode("ascii").split()
            found = LastChange(int(number), bytes.fromhex("".join(checksum)))
            if found.line(base) == line:
                return found if base == content else None
        except FileNotFoundError:
            return None
        except ValueError:
            pass
        if line == before:  # else a writer may have been writing it
            raise CorruptIndexError(f"{path} has been altered; {way_out(directory)}")
        before = line


def way_out(directory: Path) -> str:
    """The end of a sentence that refuses damaged changes."""
    return f"swiftlet repair {directory} saves what can be read"
