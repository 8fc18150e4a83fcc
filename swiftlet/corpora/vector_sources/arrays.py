"""Vectors alone: arrays of NumPy, and the files of the collections of TEXMEX."""

import re
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from swiftlet.corpora.fields import Fields
from swiftlet.corpora.lines import read_errors
from swiftlet.corpora.vector_sources.place import Place
from swiftlet.corpora.vector_sources.source import (
    Source,
    as_float32,
    bad_row,
    checked_dim,
    chosen,
    numbered_rows,
    rows_at_once,
    wrong_width,
)
from swiftlet.corpora.vectors import VectorBlock
from swiftlet.errors import CollectionError, shown

NPY, NPZ = ".npy", ".npz"
TEXMEX = {".fvecs": "<f4", ".bvecs": "u1"}
ARRAY_SUFFIXES = (NPY, NPZ, *TEXMEX)

_HEAD_BYTES = 10_012
"""The longest head that NumPy takes, and what comes before it."""

Array = NDArray[Any]
_Head = tuple[tuple[int, ...], bool, np.dtype[Any]]

# What NumPy raises for a damaged head besides errors of the file.
_ERRORS = (
    ValueError, TypeError, SyntaxError, ArithmeticError, LookupError, MemoryError, RuntimeError,
    TokenError, zipfile.BadZipFile,
)  # fmt: skip


def open_arrays(place: Place, vector_field: str | None, _fields: Fields | None) -> Source:
    """The vectors of a file of `ARRAY_SUFFIXES`, which is mapped or streamed.

    :raises CollectionError: When it has no vectors, or several arrays of them in an .npz file, of
        which `vector_field` names none.
    """
    path = place.folder
    suffix = path.suffix.lower()
    if suffix == NPZ:
        return _of_archive(path, vector_field)
    if suffix in TEXMEX:
        rows = _texmex(path, suffix)
        return _of_rows(rows, f"{path}", len(rows), rows["vector"].shape[1])
    return of_array(mapped(path), f"{path}")


def of_array(array: Array, name: str) -> Source:
    """The vectors (n, dim) of an array in memory, or of a mapped file.

    :raises CollectionError: When the array has another shape, or no numbers.
    """
    return _of_rows(array, name, *_shape(array.shape, array.dtype, name))


def _of_rows(array: Array, name: str, count: int, dim: int) -> Source:
    def read(first: int) -> Iterator[VectorBlock]:
        step = rows_at_once(dim)
        for start in range(first, count, step):
            part = array[start : start + step]
            if part.dtype.names:
                _check_widths(name, start, part["width"], dim)
                part = part["vector"]
            yield VectorBlock(numbered_rows(start, len(part)), as_float32(part))

    return Source(name, dim, None, count, read, numbered=True)


def mapped(path: Path) -> Array:
    """The array of an .npy file, mapped.

    :raises CollectionError: When the file is damaged, or holds objects of Python.
    """
    with read_errors(path, *_ERRORS):
        try:
            with path.open("rb") as file:
                shape, _, kind = _head(file)
            if kind.hasobject:
                raise CollectionError(
                    path,
                    f"there is an array {shape} of Python objects: save its numbers, "
                    "numpy.save(file, numpy.array([*rows], 'float32'))",
                )
            return np.lib.format.open_memmap(path, mode="r")
        except ValueError as error:
            if not re.search("mmap length|^EOF", f"{error}"):
                raise
            raise CollectionError(path, "the file ends too early: copy it again") from error


def _shape(shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> tuple[int, int]:
    if dtype.kind not in "fiu" or len(shape) != 2:
        raise CollectionError(
            name, f"there is an array {shape} of {dtype} where numbers (n, width) are expected"
        )
    if not shape[0]:
        raise CollectionError(name, "there is no vector")
    return shape[0], checked_dim(name, shape[1])


def _texmex(path: Path, suffix: str) -> Array:
    """The rows of a file in which each vector comes after its width."""
    with read_errors(path):
        size = path.stat().st_size
        with path.open("rb") as file:
            head = np.frombuffer(file.read(4), "<i4", count=-1 if size >= 4 else 0)
    if not len(head):
        raise CollectionError(path, "there is no vector")
    dim = checked_dim(f"{path}", int(head[0]))
    row = np.dtype([("width", "<i4"), ("vector", TEXMEX[suffix], (dim,))])
    count = size // row.itemsize
    with read_errors(path, *_ERRORS):
        rows = np.memmap(path, row, mode="r", shape=count) if count else np.empty(0, row)
    if size % row.itemsize:
        step = rows_at_once(dim)
        for start in range(0, count, step):  # the file may be large, and its second row bad
            _check_widths(f"{path}", start, rows["width"][start : start + step], dim)
        raise bad_row(f"{path}", count, "the file ends within it")
    return rows


def _check_widths(name: str, first: int, widths: Array, dim: int) -> None:
    if (widths != dim).any():
        place = int(np.argmax(widths != dim))
        raise wrong_width(name, first + place, int(widths[place]), dim)


def ids_beside(path: Path, count: int | None) -> str | None:
    """The array of an .npz file that looks like the ids of its `count` vectors, if there is one."""
    if path.suffix.lower() != NPZ:
        return None
    heads = _heads(path).items()
    found = (name for name, (shape, _, kind) in heads if shape == (count,) and kind.kind in "iuUS")
    return next(found, None)


def _heads(path: Path) -> dict[str, _Head]:
    """What `_head` says of each array of an .npz file."""
    heads = {}
    with read_errors(path, *_ERRORS), zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            with archive.open(member) as file:
                heads[member.removesuffix(NPY)] = _head(file)
    return heads


def _of_archive(path: Path, vector_field: str | None) -> Source:
    """An array of an .npz file, compressed or not, which is read as a stream."""
    heads = _heads(path)
    vectors = [
        name for name, (shape, _, kind) in heads.items() if len(shape) == 2 and kind.kind in "fiu"
    ]
    name = chosen(f"{path}", "array", vectors, vector_field)
    shape, by_columns, kind = heads[name]
    count, dim = _shape(shape, kind, f"{path}")
    if by_columns:
        raise CollectionError(path, f"{shown(name)} lies by columns: write it in the order 'C'")

    def read(first: int) -> Iterator[VectorBlock]:
        with (
            read_errors(path, *_ERRORS),
            zipfile.ZipFile(path) as archive,
            archive.open(f"{name}{NPY}") as file,
        ):
            _head(file)
            file.seek(first * dim * kind.itemsize, 1)
            step = rows_at_once(dim)
            for start in range(first, count, step):
                rows = min(step, count - start)
                flat = np.frombuffer(file.read(rows * dim * kind.itemsize), kind)
                block = as_float32(flat.reshape(rows, dim))
                yield VectorBlock(numbered_rows(start, rows), block)

    return Source(f"{path}", dim, None, count, read, numbered=True)


def _head(file: IO[bytes]) -> _Head:
    """The shape, whether it lies by columns, and the type of an array; `file` is then at it."""
    head = BytesIO(file.read(_HEAD_BYTES))  # a damaged one may name a length of gigabytes
    start = head.getvalue()[: len(np.lib.format.MAGIC_PREFIX)]
    if start and not np.lib.format.MAGIC_PREFIX.startswith(start):
        raise ValueError("it is no file of NumPy")
    version = np.lib.format.read_magic(head)
    read = np.lib.format.read_array_header_1_0
    found = (read if version == (1, 0) else np.lib.format.read_array_header_2_0)(head)
    file.seek(head.tell())
    return found
