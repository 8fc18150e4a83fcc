"""Fields by whose values documents can be grouped."""

from collections.abc import Iterable

import numpy as np

from swiftlet.errors import GroupingError, shown
from swiftlet.index.columns.columns import Columns, field_keys
from swiftlet.index.columns.filters import Condition
from swiftlet.index.vectors.vector_index import Mask

_KINDS = (b"b", b"n", b"s")  # the text of a date has a second key, of another kind


def check_single_values(path: str, parts: Iterable[tuple[Columns, Mask]]) -> None:
    """Refuse a field without a value in any document, or with several in one document.

    :param parts: Columns, and which of their documents (n,) can be found.
    :raises GroupingError: When it is one.
    """
    exists = several = False
    for columns, mask in parts:
        found = [columns.documents(columns.codes(keys)) for keys in values_of(path).keys]
        counts = np.bincount(np.concatenate(found), minlength=len(mask))
        exists |= bool(counts.any())
        several |= bool((counts[mask] > 1).any())
    check_values(path, exists=exists, several=several)


def check_values(path: str, *, exists: bool, several: bool) -> None:
    """Refuse a field unless values of it exist, and no document has several.

    :raises GroupingError: When it cannot be grouped by.
    """
    if several:
        raise GroupingError(
            f"group_by is {shown(path)}, but a document has several values of it; a field with one "
            "value is expected"
        )
    if not exists:
        raise GroupingError(f"group_by is {shown(path)}, but no document has a value of it")


def values_of(path: str) -> Condition:
    """The documents with a value of a field, each value by one key."""
    return Condition(path, tuple(field_keys(path, kind) for kind in _KINDS))
