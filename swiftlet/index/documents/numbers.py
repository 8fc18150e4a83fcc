"""The document that each passage belongs to."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

DocumentNumbers = NDArray[np.int32] | NDArray[np.float64]
"""Numbers of documents in the order of their ids, so that the smaller number wins a tie."""


class NumbersByRow(Protocol):
    """The document number of each row."""

    def __getitem__(self, rows: NDArray[np.int64], /) -> DocumentNumbers:
        """The numbers (k,) of the documents at `rows` (k,)."""
        ...
