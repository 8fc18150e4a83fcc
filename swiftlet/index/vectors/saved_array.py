"""Small arrays of an index directory, which may be forged."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swiftlet.corpora.vector_sources.arrays import mapped
from swiftlet.errors import CollectionError, CorruptIndexError


def read_array(path: Path, dtype: "np.dtype[Any]", below: int | None = None) -> NDArray[Any]:
    """The array (n,) of a type that `save_array` wrote.

    :param below: What the rows, all or those of the field "row", are less than, if it is known.
    :raises CorruptIndexError: When it is another one, or none.
    """
    try:
        found = mapped(path)
    except CollectionError as error:
        raise CorruptIndexError(f"{path} is damaged: {error.__cause__ or error}") from error
    if found.dtype != dtype or found.ndim != 1:
        raise CorruptIndexError(
            f"{path} is damaged: there is an array {found.shape} of {found.dtype}"
        )
    found = np.array(found)  # as the file may be replaced
    rows = found["row"] if dtype.names else found
    if below is not None and not ((rows >= 0) & (rows < below)).all():
        raise CorruptIndexError(f"{path} is damaged: it names rows beyond the {below:,} passages")
    return found
