"""The metadata of documents by value: which documents have it."""

import math
import sqlite3
import struct
import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from re import compile as pattern
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from swiftlet import disk
from swiftlet.errors import CorruptIndexError, StorageError
from swiftlet.publication import map_arrays
from swiftlet.text import in_form

COLUMNS_FOLDER = "columns"
"""The folder of the columns in an index directory."""

COLUMN_FILES = ("documents.npy", "document_ends.npy", "keys.npy", "key_ends.npy")

LONGEST_KEY = 256
"""The bytes of a text in UTF-8 that its key has; the key of a longer text ends with a hash."""

LONGEST_FIELD = 512
"""The characters of a field's path in its keys; of a longer one, a hash stands for the rest."""

Value = str | float | bool
"""A value of the metadata."""

_DATE = pattern(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?(Z|[+-]\d\d(:?\d\d)?)?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_DAY = datetime(9999, 12, 31, tzinfo=UTC)
_FETCHED_ROWS = 65_536
_END_OF_TIME = datetime.max.replace(tzinfo=UTC)
_SIGN = 1 << 63
_ALL = 2 * _SIGN - 1
_LARGEST = int(sys.float_info.max)
_FLOAT_BYTES, _SIZE_BYTES = 8, 4
_BEYOND = 0xFF  # no integer of a float's size has this byte first


class KeyRange(NamedTuple):
    """The keys from `first` up to `end`, which does not belong to it."""

    first: bytes
    end: bytes


def one_key(key: bytes) -> KeyRange:
    """The range of one key."""
    return KeyRange(key, key + b"\0")


def keys_with(prefix: bytes) -> KeyRange:
    """The keys that begin with a prefix."""
    return KeyRange(prefix, prefix[:-1] + bytes([prefix[-1] + 1]))


def field_keys(path: str, kind: bytes = b"") -> KeyRange:
    """The keys of all values of a field, or of its values of one kind: n, s, b or d."""
    return keys_with(_field(path) + kind)


def number_key(path: str, value: float) -> bytes:
    """The key of a number; keys are ordered as the numbers are.

    It has the next float at or below the number. An integer that is no float, such as 2⁵³ + 1, has
    after it what it is more than this float.
    """
    below = _float_at_or_below(value)
    (bits,) = struct.unpack(">Q", struct.pack(">d", below + 0.0))  # -0.0 + 0.0 is 0.0
    key = struct.pack(">Q", _ALL ^ bits if bits & _SIGN else _SIGN | bits)
    if isinstance(value, int) and below != value:
        key += _above(below, value)
    return _field(path) + b"n" + key


def boolean_key(path: str, value: bool) -> bytes:
    """The key of true or false."""
    return _field(path) + b"b" + bytes([value])


def date_key(path: str, value: datetime) -> bytes:
    """The key of a point in time; keys are ordered by time."""
    microseconds = (value - _EPOCH) // timedelta(microseconds=1)
    return _field(path) + b"d" + (microseconds + _SIGN).to_bytes(8)


def text_key(path: str, value: str) -> bytes:
    """The key of a text; texts up to `LONGEST_KEY` are ordered by their characters."""
    content = value.encode(errors="replace")
    if len(content) > LONGEST_KEY:
        content = content[:LONGEST_KEY] + sha256(content).digest()
    return _field(path) + b"s" + content


def parse_date(text: str) -> tuple[datetime, datetime] | None:
    """The first moment of an ISO date or time, and the first after it; None if it is neither.

    Without a time zone, it is in UTC.
    """
    if not _DATE.fullmatch(text):
        return None
    try:
        first = datetime.fromisoformat(text)
        first = (first if first.tzinfo else first.replace(tzinfo=UTC)).astimezone(UTC)
        whole = timedelta(days=1) if len(text) == len("2020-01-01") else timedelta(microseconds=1)
    except (ValueError, OverflowError):  # 31 February, or before the year 1
        return None
    return first, first + whole if first < _LAST_DAY else _END_OF_TIME


def keys_of(metadata: Mapping[str, Any], *, composed: bool = True) -> set[bytes]:
    """The keys of all values in the metadata of a document.

    A field of a nested object is named by its path, "author.name"; a list has all of its elements.
    A text that is a date has a second key.

    :param composed: Give texts Unicode's form NFC. Earlier indexes have them as they were.
    """
    keys = set()
    remaining = [(_shortened(f"{name}"), value) for name, value in metadata.items()]
    while remaining:
        path, value = remaining.pop()
        if isinstance(value, Mapping):
            remaining += [(_shortened(f"{path}.{name}"), each) for name, each in value.items()]
        elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
            remaining += [(path, inner) for inner in value]
        elif isinstance(value, bool):
            keys.add(boolean_key(path, value))
        elif isinstance(value, int | float):
            keys.add(number_key(path, value))
        elif isinstance(value, str):
            keys.add(text_key(path, in_form("NFC", value) if composed else value))
            if moments := parse_date(value):
                keys.add(date_key(path, moments[0]))
    return keys


class Columns:
    """The documents that have each value, by keys in ascending order. Thread-safe."""

    def __init__(
        self,
        documents: NDArray[np.int32],
        document_ends: NDArray[np.int64],
        keys: NDArray[np.uint8],
        key_ends: NDArray[np.int64],
    ) -> None:
        """Documents (e,) and keys (bytes,), each joined; the ends (k + 1,) begin with 0."""
        self._documents, self._document_ends = documents, document_ends
        self._keys, self._key_ends = keys, key_ends

    @classmethod
    def open(cls, folder: Path, num_documents: int = 1 << 31) -> "Columns":
        """Map the files of `folder` into memory, which name at most `num_documents` documents.

        :raises CorruptIndexError: When they cannot be read, or do not belong together.
        """
        arrays = map_arrays(folder, COLUMN_FILES)
        documents, document_ends, keys, key_ends = arrays
        if not (
            all(each.ndim == 1 for each in arrays)
            and [each.dtype.kind for each in arrays] == ["i", "i", "u", "i"]
            and len(document_ends) == len(key_ends)
            and _cuts(document_ends, documents)
            and _cuts(key_ends, keys)
            and bool(np.all((documents >= 0) & (documents < num_documents)))
            # Each key has the end of its field's name.
            and len(np.unique(np.searchsorted(key_ends, np.flatnonzero(keys == 0), "right")))
            == len(key_ends) - 1
        ):
            raise CorruptIndexError(f"{folder} is damaged: its files do not belong together")
        return cls(*arrays)

    @classmethod
    def of(cls, metadata: Iterable[Mapping[str, Any]]) -> "Columns":
        """The columns of documents in memory, in the order of their numbers."""
        documents = defaultdict(list)
        for number, each in enumerate(metadata):
            for key in keys_of(each):
                documents[key].append(number)
        keys = sorted(documents)
        return cls(
            np.array([number for key in keys for number in documents[key]], np.int32),
            np.cumsum([0, *(len(documents[key]) for key in keys)]),
            np.frombuffer(b"".join(keys), np.uint8),
            np.cumsum([0, *map(len, keys)]),
        )

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._key_ends) - 1

    def __getitem__(self, code: int) -> bytes:
        """The key with this code, its rank in ascending order."""
        return self._keys[self._key_ends[code] : self._key_ends[code + 1]].tobytes()

    def codes(self, keys: KeyRange) -> range:
        """The codes of the keys in a range."""
        return range(bisect_left(self, keys.first), bisect_left(self, keys.end))

    def documents(self, codes: range) -> NDArray[np.int32]:
        """The documents with one of the `codes`, for each code in ascending order."""
        return self._documents[self._document_ends[codes.start] : self._document_ends[codes.stop]]

    def counts(self, codes: range, mask: NDArray[np.bool] | None = None) -> NDArray[np.int64]:
        """The number of documents with each of the `codes`, or of those that are in the `mask`."""
        ends = self._document_ends[codes.start : codes.stop + 1]
        if mask is None:
            return np.diff(ends)
        found = np.concatenate(([0], np.cumsum(mask[self.documents(codes)])))
        counts: NDArray[np.int64] = np.diff(found[ends - ends[0]])
        return counts

    def dates(self, codes: range) -> NDArray[np.int64]:
        """The moments of keys that are dates of one field, in microseconds since 1970."""
        return (self._words(codes) ^ np.uint64(_SIGN)).view(np.int64)

    def floats(self, codes: range) -> NDArray[np.float64]:
        """The values of keys that are numbers of one field, each as a float."""
        words, sign = self._words(codes), np.uint64(_SIGN)
        return np.where(words & sign, words ^ sign, ~words).view(np.float64)

    def _words(self, codes: range) -> NDArray[np.uint64]:
        """The first eight bytes (k,) of keys of one field, after its name and the kind."""
        if not codes:
            return np.empty(0, np.uint64)
        start = self[codes.start].index(b"\0") + 2
        places = self._key_ends[codes.start : codes.stop, np.newaxis] + start
        words: NDArray[np.uint64] = self._keys[places + np.arange(_FLOAT_BYTES)].view(">u8")
        return words[:, 0].astype(np.uint64)

    def codes_of_documents(self, num_documents: int) -> Callable[[int], list[int]]:
        """A function that gives the codes of a document."""
        order = np.argsort(self._documents, kind="stable")
        counts = np.bincount(self._documents, minlength=num_documents)
        ends = np.concatenate(([0], np.cumsum(counts)))
        codes = np.repeat(np.arange(len(self)), np.diff(self._document_ends))[order]
        return lambda document: codes[ends[document] : ends[document + 1]].tolist()

    def fields(self) -> Iterator[str]:
        """The names of all fields, in order."""
        code = 0
        while code < len(self):
            name = field_of(self[code])
            yield name
            code = self.codes(field_keys(name)).stop


def _cuts(ends: NDArray[Any], joined: NDArray[Any]) -> bool:
    """Whether parts of `joined` end at `ends`, which begin with 0."""
    found = [*ends[:1], *ends[-1:]] == [0, len(joined)]
    return found and bool(np.all(ends[1:] >= ends[:-1]))


def write_columns(folder: Path, metadata: Iterable[Mapping[str, Any]]) -> None:
    """Write the columns of documents into the new `folder`, in the order of their numbers.

    :raises StorageError: When the file system refuses.
    """
    with disk.storage_errors(folder):
        disk.make_directory(folder)
    sorting = folder / "sorting.sqlite"
    documents, keys, counts, lengths = [np.empty(0, np.int32)], bytearray(), [0], [0]
    try:
        # SQLite sorts more than fits into memory.
        with closing(disk.database(sorting, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            database.execute("CREATE TABLE entries (key BLOB, document INTEGER)")
            database.execute("BEGIN")
            database.executemany(
                "INSERT INTO entries VALUES (?, ?)",
                ((key, number) for number, each in enumerate(metadata) for key in keys_of(each)),
            )
            database.execute("COMMIT")
            found = database.execute("SELECT key, document FROM entries ORDER BY key, document")
            last = None
            while rows := found.fetchmany(_FETCHED_ROWS):
                for key, _ in rows:
                    if key != last:
                        keys += key
                        counts.append(0)
                        lengths.append(len(key))
                        last = key
                    counts[-1] += 1
                documents.append(np.fromiter((number for _, number in rows), np.int32, len(rows)))
    except sqlite3.DatabaseError as error:  # also of a block that cannot be read again
        raise StorageError(f"cannot write {folder}: {error}") from error
    arrays: tuple[NDArray[Any], ...] = (
        np.concatenate(documents),
        np.cumsum(counts, dtype=np.int64),
        np.frombuffer(keys, np.uint8),
        np.cumsum(lengths, dtype=np.int64),
    )
    with disk.storage_errors(folder):
        disk.remove(sorting)
        for name, array in zip(COLUMN_FILES, arrays, strict=True):
            disk.save_array(folder / name, array)


def field_of(key: bytes) -> str:
    """The name of a key's field."""
    return key[: key.index(b"\0")].decode(errors="replace")


def value_of(key: bytes) -> Value | None:
    """The value of a key that is no date; None for a text or integer over `LONGEST_KEY` bytes."""
    start = key.index(b"\0") + 1
    kind, content = key[start : start + 1], key[start + 1 :]
    if kind == b"b":
        return content == b"\1"
    if kind == b"n":
        bits, above = int.from_bytes(content[:_FLOAT_BYTES]), content[_FLOAT_BYTES:]
        bits = _SIGN ^ bits if bits & _SIGN else _ALL ^ bits
        (value,) = struct.unpack(">d", bits.to_bytes(_FLOAT_BYTES))
        if above and (math.isinf(value) or above[0] == _BEYOND):
            return _beyond(above, value > 0)
        return int(value) + int.from_bytes(above) if value.is_integer() else value
    return content.decode(errors="replace") if len(content) <= LONGEST_KEY else None


def _beyond(above: bytes, is_positive: bool) -> int | None:
    """The integer beyond all floats with these bytes of `_above`; None if it is too long."""
    content = above[1:] if is_positive else bytes(_BEYOND - each for each in above)
    if len(content) > LONGEST_KEY:
        return None
    value = int.from_bytes(content[_SIZE_BYTES:])
    return value if is_positive else -value


def _field(path: str) -> bytes:
    return _shortened(path).encode(errors="replace").replace(b"\0", b"?") + b"\0"


def _shortened(path: str) -> str:
    """A path of at most `LONGEST_FIELD` characters: each of a document's values has it in its key.

    It is shortened name by name, so that the path of an inner field follows from the outer one's.
    """
    if len(path) <= LONGEST_FIELD:
        return path
    found, *names = path.split(".")
    found = _cut(found)
    for name in names:
        found = _cut(f"{found}.{name}")
    return found


def _cut(path: str) -> str:
    if len(path) <= LONGEST_FIELD:
        return path
    rest = sha256(path.encode(errors="replace")).hexdigest()
    return path[: LONGEST_FIELD - len(rest)] + rest


def _float_at_or_below(value: float) -> float:
    if isinstance(value, float):
        return value
    if abs(value) > _LARGEST:
        return sys.float_info.max if value > 0 else -math.inf
    nearest = float(value)
    return math.nextafter(nearest, -math.inf) if int(nearest) > value else nearest


def _above(below: float, value: int) -> bytes:
    """What orders the integers between a float and the next one, in as many bytes for each."""
    if abs(value) > _LARGEST:
        size = (value.bit_length() + 7) // 8
        content = size.to_bytes(_SIZE_BYTES) + abs(value).to_bytes(size)
        if len(content) > LONGEST_KEY:
            content = content[:LONGEST_KEY] + sha256(content).digest()
        return (
            bytes([_BEYOND]) + content if value > 0 else bytes(_BEYOND - each for each in content)
        )
    size = (int(math.ulp(below)).bit_length() + 7) // 8
    return (value - int(below)).to_bytes(size)
