"""The document of each passage, as a number: passage_to_document.npy."""

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from swiftlet.errors import CorruptIndexError

PASSAGE_TO_DOCUMENT_FILE = "passage_to_document.npy"

DocumentNumbers = NDArray[np.int32] | NDArray[np.float64]
"""Numbers of documents in the order of their ids, so that the smaller number wins a tie."""


class NumbersByRow(Protocol):
    """The document number of each row."""

    def __getitem__(self, rows: NDArray[np.int64], /) -> DocumentNumbers:
        """The numbers (k,) of the documents at `rows` (k,)."""
        ...


def read_numbers(index: Path, num_documents: int) -> DocumentNumbers:
    """The document number of each passage row of an index.

    :raises CorruptIndexError: When the file is damaged, or numbers other documents.
    """
    path = index / PASSAGE_TO_DOCUMENT_FILE
    try:
        # A plain array: its elements are read several times as fast as a memory map.
        numbers = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError) as error:
        raise CorruptIndexError(f"{path} is damaged: {error}") from error
    is_list = numbers.ndim == 1 and numbers.dtype.kind == "i"
    # The passages of a document are next to each other.
    firsts = numbers[first_rows(numbers)] if is_list else np.empty(0)
    if not np.array_equal(np.sort(firsts), np.arange(num_documents)):
        raise CorruptIndexError(f"{path} does not number the {num_documents:,} documents")
    return numbers


def first_rows(numbers: DocumentNumbers) -> NDArray[np.int64]:
    """The first row of each document, in the order of the corpus."""
    return np.flatnonzero(np.diff(numbers, prepend=-1))
