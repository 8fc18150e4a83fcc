"""A source of vectors that is made of a function, and what all readers check of its rows."""

import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swiftlet.corpora.fields import Fields
from swiftlet.corpora.lines import LineError, read_errors
from swiftlet.corpora.vectors import Metric, VectorBlock
from swiftlet.errors import CollectionError, shown
from swiftlet.types import Embeddings

ROWS_AT_ONCE, _NUMBERS_AT_ONCE = 1_000, 1 << 22

Row = Mapping[str, Any]
Read = Callable[[int], Iterator[VectorBlock]]
"""The blocks from a row on, counted from 0."""

_MOST_NAMES = 20
_WAY = "--vector-field (in Python vector_field=…)"

Pairs = Generator[tuple[dict[str, Any], Any], None, None]
"""Rows with the names of the place, each with its vector."""

WIDEST = 1 << 16
"""The most numbers of a vector."""

TOO_LARGE = 1e17
"""Sums of squares of larger numbers may be beyond a float32: a search takes none either."""


@dataclass(frozen=True, slots=True)
class Source:
    """A `VectorSource` whose blocks a function reads; each vector is checked.

    `numbered` says that the ids of the rows are no more than their numbers. `faiss_file` is the
    file of an index of FAISS, which may be taken as it is. Where it does not give vectors back,
    `keeps_vectors` is false, and embeddings are (n, 0).
    """

    name: str
    dim: int
    metric: Metric | None
    num_rows: int | None
    read: Read
    numbered: bool = False
    keeps_vectors: bool = True
    faiss_file: Path | None = None

    def blocks(self, first: int = 0) -> Iterator[VectorBlock]:
        """The vectors from row `first` on, checked.

        :raises CollectionError: When a vector is zero, not finite or of another width; and when the
            source ends before or after the rows that it counted.
        """
        row = first
        for block in self.read(first):
            if self.keeps_vectors:
                self._check(block.embeddings, row)
            row += len(block.embeddings)
            if self.num_rows is not None and row > self.num_rows:
                break  # of a source without end, no more is read
            yield block
        if self.num_rows is not None and row != max(first, self.num_rows):
            raise CollectionError(
                self.name, f"{row:,} rows were read where {self.num_rows:,} were counted"
            )

    def _check(self, embeddings: Embeddings, first: int) -> None:
        if embeddings.shape[1] != self.dim:
            raise wrong_width(self.name, first, embeddings.shape[1], self.dim)
        largest = np.abs(embeddings).max(axis=1)
        good = (largest > 0) & (largest < TOO_LARGE)
        if not good.all():
            place = int(np.argmin(good))
            raise bad_row(self.name, first + place, f"the vector {problem_of(embeddings[place])}")

    def with_rows(self, rows: Callable[[VectorBlock, int], Sequence[Row]]) -> "Source":
        """The same vectors with other rows, from a block and the number of its first row."""

        def read(first: int) -> Iterator[VectorBlock]:
            for block in self.read(first):
                yield replace(block, rows=rows(block, first))
                first += len(block.embeddings)

        return replace(self, read=read, numbered=False)


def check_regular(path: Path) -> None:
    """Refuse what is no file and no folder, before it is opened: a pipe or a device may never end.

    :raises CollectionError: When it is neither.
    """
    with read_errors(path):
        if stat.S_IFMT(path.stat().st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
            raise CollectionError(
                path, "it is a pipe or a device, which cannot be read twice: copy it into a file"
            )


def bad_row(name: str, row: int, problem: str) -> CollectionError:
    """The error about a row, counted from 0; the sentence counts from 1, as all readers do."""
    return CollectionError(name, f"row {row + 1:,}: {problem}")


def problem_of(vector: Embeddings) -> str:
    """Why a vector (dim,) cannot be compared with others; "" if it can."""
    largest = np.abs(vector).max(initial=0)
    if not np.isfinite(largest):
        return "has a number that is not finite"
    if largest >= TOO_LARGE:
        return f"has a number beyond {TOO_LARGE:g}, the most that is compared"
    return "" if largest else "is zero"


def named(name: str, number: int, record: dict[str, Any], fields: Fields | None) -> Row:
    """A record with the names that a line of JSON has.

    :raises CollectionError: When a field that `fields` name is missing.
    """
    try:
        return record if fields is None else fields.of(record)
    except LineError as error:
        raise bad_row(name, number, f"{error}") from error


def wrong_width(name: str, row: int, found: int, expected: int) -> CollectionError:
    """The error about a vector of another width."""
    return bad_row(name, row, f"the vector has {found:,} numbers where {expected:,} are expected")


def checked_dim(name: str, dim: int) -> int:
    """The width of a source's vectors.

    :raises CollectionError: When no vector can have it.
    """
    if not 0 < dim <= WIDEST:
        raise CollectionError(
            name, f"the vectors have {dim:,} numbers where 1 to {WIDEST:,} are expected"
        )
    return dim


def rows_at_once(dim: int) -> int:
    """The rows of a block of vectors (n, dim): fewer than `ROWS_AT_ONCE` where they are wide."""
    return max(1, min(ROWS_AT_ONCE, _NUMBERS_AT_ONCE // dim))


def numbered_rows(first: int, count: int) -> list[dict[str, str]]:
    """Rows whose ids are their numbers from 0."""
    return [{"id": f"{number}"} for number in range(first, first + count)]


def as_float32(numbers: NDArray[Any]) -> Embeddings:
    """Numbers of any kind in single precision; those beyond it become infinite."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(numbers, np.float32)


def of_pairs(
    name: str,
    pairs: Callable[[int], Pairs],
    fields: Fields | None = None,
    *,
    metric: Metric | None = None,
    num_rows: int | None = None,
) -> Source:
    """A source of rows that come one by one, each with its vector, from a row on.

    :param fields: The names of their fields; None takes those of a line of JSON.
    :raises CollectionError: When there is no first row, or it has no vector.
    """
    with closing(pairs(0)) as found:
        first_pair = next(found, None)
    if first_pair is None:
        raise CollectionError(name, "there is no vector")
    dim = checked_dim(name, len(_vector(name, 0, first_pair[1])))

    def read(first: int) -> Iterator[VectorBlock]:
        found = pairs(first)
        while some := list(islice(found, rows_at_once(dim))):
            rows, embeddings = list[Row](), np.empty((len(some), dim), np.float32)
            for place, (row, value) in enumerate(some):
                rows.append(named(name, first + place, row, fields))
                vector = _vector(name, first + place, value)
                if len(vector) != dim:
                    raise wrong_width(name, first + place, len(vector), dim)
                embeddings[place] = vector
            yield VectorBlock(rows, embeddings)
            first += len(some)

    return Source(name, dim, metric, num_rows, read)


def _vector(name: str, row: int, value: Any) -> Embeddings:
    """The vector of a row.

    :raises CollectionError: When the value is no list of numbers.
    """
    if value is None:
        raise bad_row(name, row, "it has no vector")
    # NumPy would make a text of each number beside a text, as long as the longest one.
    if not isinstance(value, list | tuple) or all(map(_is_number, {*map(type, value)})):
        try:
            numbers = np.asarray(value)
            if numbers.ndim == 1 and len(numbers) and numbers.dtype.kind in "fiu":
                return as_float32(numbers)
        except (ValueError, OverflowError):  # no list, and whole numbers of hundreds of digits
            pass
    raise bad_row(name, row, f"there is {shown(value)}, not a list of numbers")


def _is_number(kind: type) -> bool:
    return issubclass(kind, Real) and not issubclass(kind, bool)


def chosen(
    name: str,
    kind: str,
    candidates: Sequence[str],
    given: str | None,
    way: str = _WAY,
    others: Iterable[str] = (),
) -> str:
    """The one that is given among several columns, or collections; the only one needs no choice.

    :param kind: What a candidate is, in messages.
    :param others: What there is besides, of which a user may know better.
    :raises CollectionError: When there is none, or several of which none is given.
    """
    if given is not None:
        if given in candidates:
            return given
        there = f"; there are {', '.join(candidates)}" if candidates else ""
        raise CollectionError(name, f"no {kind} of vectors is called {shown(given)}{there}")
    if not candidates:
        named = ", ".join(islice(others, _MOST_NAMES))
        ways = named and (
            f" among {named}: name it by {way}, or make an index of the texts by swiftlet index"
        )
        raise CollectionError(name, f"there is no {kind} of vectors{ways}")
    if len(candidates) > 1:
        raise CollectionError(
            name,
            f"there are several {kind}s, {', '.join(candidates)}: {way} chooses one",
        )
    return candidates[0]
