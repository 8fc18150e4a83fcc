"""The rules for the ids of documents and queries, and a set of ids for large corpora."""

import re
from collections.abc import Callable
from decimal import Decimal
from numbers import Integral
from typing import Any, Literal, TypeVar
from uuid import UUID

from swiftlet.corpora.lines import LineError
from swiftlet.errors import shown, shown_json
from swiftlet.types import Document, Query

Named = TypeVar("Named", Document, Query)

# Control characters break lines and terminals. At the start of a file, U+FEFF is a byte order mark.
# Half of a surrogate pair cannot be stored.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ufeff\ud800-\udfff]")
LONGEST_ID = 2_048
"""The most characters of an id; it is a part of URLs."""

_LARGEST = 10**LONGEST_ID
_STEPS = frozenset({".", ".."})


def check_id(value: object, name: str) -> str:
    """Return `value` if it may be an id. Every reader and writer of ids calls this function.

    An integer becomes its decimal text, and so does a UUID its text.

    :param name: The name of the id in messages, such as "document id".
    :raises LineError: When it is no string or integer, blank, longer than `LONGEST_ID`, a step in a
        path ("." or ".."), or holds a control character, U+FEFF or half of a surrogate pair.
    """
    if isinstance(value, UUID):
        value = f"{value}"
    if isinstance(value, Decimal) and value.as_tuple().exponent == 0:
        value = int(value)
    if isinstance(value, Integral) and not isinstance(value, bool):
        value = f"{int(value)}" if abs(value) < _LARGEST else value
    if not isinstance(value, str):
        raise LineError(f"the {name} {shown_json(value)} is not a string")
    if not value or value.isspace():
        raise LineError(f"the {name} is empty")
    if len(value) > LONGEST_ID:
        raise LineError(
            f"the {name} {shown(value)} has {len(value):,} characters; at most {LONGEST_ID:,} are "
            "expected"
        )
    if found := _FORBIDDEN.search(value):
        raise LineError(
            f"the {name} {shown(value)} holds the forbidden character U+{ord(found[0]):04X}"
        )
    if value in _STEPS:
        raise LineError(f"the {name} {shown(value)} is a step in a path: no URL can contain it")
    return value


def check_trec_id(value: object, name: str) -> str:
    """Return `value` if it may be an id in a TREC file, where white space separates the columns.

    :raises LineError: As `check_id`, or when it holds white space.
    """
    checked = check_id(value, name)
    if any(character.isspace() for character in checked):
        raise LineError(f"a TREC file cannot hold the {name} {shown(checked)}: white space")
    return checked


class SeenIds:
    """The hashes of ids, to find duplicates in a large corpus.

    They take about 70 bytes each, for ids of any length. Among ten million ids, two share a hash of
    64 bits, and one is falsely refused, with a probability of 3 in a million.

    The document store refuses a second equal id, too. But it does not know the line, cannot leave
    the line out, and does not see the ids of other shards or of earlier batches of changes.
    """

    def __init__(self) -> None:
        self._hashes = set[int]()

    def add(self, value: str) -> bool:
        """Add `value`; true when it is new."""
        before = len(self._hashes)
        self._hashes.add(hash(value))
        return len(self._hashes) > before

    def unique(
        self, read: Callable[[Any], Named], kind: Literal["document", "query"] = "document"
    ) -> Callable[[Any], Named]:
        """The function `read`, which now raises `LineError` for an id that came before."""

        def read_unique(record: Any) -> Named:
            found = read(record)
            value = getattr(found, f"{kind}_id")
            if not self.add(value):
                raise LineError(f"the {kind} id {shown(value)} came before")
            return found

        return read_unique
