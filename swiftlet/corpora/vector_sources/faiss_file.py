"""An index file of FAISS, of any type that has vectors."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from swiftlet.corpora.fields import Fields
from swiftlet.corpora.vector_sources.place import Place
from swiftlet.corpora.vector_sources.source import (
    ROWS_AT_ONCE,
    Source,
    checked_dim,
    numbered_rows,
    rows_at_once,
)
from swiftlet.corpora.vectors import VectorBlock
from swiftlet.errors import CollectionError

FAISS_SUFFIXES = (".faiss", ".index")
_BINARY = b"IB"
# A file of its own, so that it starts without the rest of Swiftlet.
_CHILD = f"{Path(__file__).with_name('faiss_child.py')}"


def has_faiss_head(path: Path) -> bool:
    """Whether a file begins as FAISS begins the files of its indexes: `IxF2`, `IHNf`, …"""
    with path.open("rb") as file:
        head = file.read(4)
    return head[:1] == b"I" and len(head) == 4 and head.isalnum()


def open_faiss(
    place: Place, _vector_field: str | None = None, _fields: Fields | None = None
) -> Source:
    """The rows of an index of FAISS, with its ids and, where its type has them, its vectors.

    Where the type does not give vectors back, the blocks have embeddings (n, 0).

    :raises CollectionError: When FAISS cannot read it, or when it is a binary index or one of bits,
        has another metric, or an id twice.
    """
    path = place.folder
    with path.open("rb") as file:
        if file.read(2) == _BINARY:
            raise CollectionError(
                path, "it is a binary index of FAISS, where one of vectors of numbers is expected"
            )
    with _child(path) as out:
        line = out.readline()
        head: dict[str, Any] = json.loads(line or '{"refused": "its process ends"}')
        if "refused" in head:
            raise CollectionError(path, f"FAISS cannot serve it: {head['refused']}")
        count, dim = head["num_rows"], checked_dim(f"{path}", head["dim"])
        labels = None
        if head["labels"]:
            labels = np.frombuffer(out.read(8 * count), np.int64)
        keeps_vectors = out.read() == b"1"
    if not count:
        raise CollectionError(path, "there is no vector")
    if labels is not None:
        in_order = np.sort(labels)
        if (twice := in_order[1:][in_order[1:] == in_order[:-1]]).size:
            raise CollectionError(path, f"the id {twice[0]} is there twice")

    def read(first: int) -> Iterator[VectorBlock]:
        if not keeps_vectors:
            for start in range(first, count, ROWS_AT_ONCE):
                rows = _rows(labels, start, min(ROWS_AT_ONCE, count - start))
                yield VectorBlock(rows, np.empty((len(rows), 0), np.float32))
            return
        step = rows_at_once(dim)
        with _child(path, first) as out:
            for start in range(first, count, step):
                rows = _rows(labels, start, min(step, count - start))
                content = out.read(4 * dim * len(rows))
                if len(content) < 4 * dim * len(rows):
                    raise CollectionError(
                        path, f"FAISS fails at the vectors {start:,} to {start + len(rows):,}"
                    )
                yield VectorBlock(rows, np.frombuffer(content, "<f4").reshape(len(rows), dim))

    return Source(
        f"{path}",
        dim,
        head["metric"],
        count,
        read,
        numbered=labels is None,
        keeps_vectors=keeps_vectors,
        faiss_file=path,
    )


def _rows(labels: "np.ndarray | None", first: int, count: int) -> list[dict[str, str]]:
    if labels is None:
        return numbered_rows(first, count)
    return [{"id": f"{label}"} for label in labels[first : first + count]]


@contextmanager
def _child(path: Path, *arguments: int) -> Iterator[IO[bytes]]:
    """What a process that reads the file writes; the end of the block ends it."""
    command = [sys.executable, "-P", _CHILD, f"{path}", *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(  # noqa: S603
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield cast("IO[bytes]", process.stdout)
        finally:
            process.kill()
