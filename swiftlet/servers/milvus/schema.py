"""The fields of a collection: a row is a passage."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from swiftlet.index.columns.columns import field_keys, field_of, keys_of

ROW, DOCUMENT_ID, NUMBER, PASSAGES = "row", "document_id", "number", "passages"
START, END, TITLE, TEXT = "start", "end", "title", "text"
BEFORE, AFTER, SECTIONS, HEADING = "before", "after", "sections", "heading"
METADATA, KEYS, EMBEDDING, WORDS = "metadata", "keys", "embedding", "words"

PLACE, WITH_WORD, UNUSED = "place", "passages", "unused"
"""In the collection of words: the place of a word in the vectors of passages, and how many passages
have it. A collection must have a vector; this one is not searched."""

OF_HITS = [ROW, DOCUMENT_ID, NUMBER, START, END, TITLE, HEADING, TEXT, METADATA]
"""What a hit has."""

OF_DOCUMENTS = [*OF_HITS, PASSAGES, BEFORE, AFTER, SECTIONS]
"""What a document is put together from."""

MANIFEST, STATE, SOURCE = "swiftlet.manifest", "swiftlet.state", "swiftlet.source"
PARAMETERS, FILTER_FIELDS = "swiftlet.parameters", "swiftlet.filter_fields"
WORD_STATISTICS = "swiftlet.words"
"""Properties of the collection: the manifest of its index, how many passages were pushed, which
state of the index these are of, the parameters of searches, the fields that filters compare, and
what is known of the words of all passages together."""

FAST, THOROUGH = "fast", "thorough"
"""The parameters of searches that find enough, and of those that find everything."""

LONGEST_ID = 1_024
"""Bytes of a document's id."""

LONGEST_TEXT = 65_535
"""Bytes of a text, and of metadata as JSON."""

NO_VALUES = ("", 1 - (1 << 63), 1 - (1 << 63))
"""What the columns of a facet have where a document has no such value, see `facet_columns`. No
number and no date has this key; the least integer of all cannot be written in an expression."""

NAMES = "names"
"""In the keys of a row: the names of all fields that it has values of, see `name_of`."""


def row_of(document_id: str, number: int) -> int:
    """The row of a passage: 63 bits of a hash, so that every writer finds it without asking."""
    content = f"{document_id}\0{number}".encode(errors="surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=8).digest()) >> 1


def keys_field(metadata: Mapping[str, Any]) -> dict[str, list[str]]:
    """What filters compare of a document's metadata.

    For each field and kind of values, the sorted keys of `keys_of` in hexadecimal: they are
    ordered as the values are. `names` lists the fields.
    """
    found: dict[str, list[str]] = {}
    names = set()
    for key in keys_of(metadata):
        path = field_of(key)
        start = key.index(b"\0") + 1
        name = name_of(path, key[start : start + 1])
        values = found.setdefault(name, [])
        names.add(name_of(path, key[start : start + 1], len(values)))
        values.append(key[start + 1 :].hex())
        parts = path.split(".")
        parents = (".".join(parts[:end]) for end in range(1, len(parts)))
        names |= {name_of(path), *(name_of(f"{parent}.") for parent in parents)}
    return {**{name: sorted(keys) for name, keys in found.items()}, NAMES: sorted(names)}


def name_of(path: str, kind: bytes = b"", place: int = 0) -> str:
    """The name of a field, of its values of one kind, or of the value at a `place` among these.

    "author." stands for all fields inside of "author".
    """
    return f"{field_keys(path).first[:-1].hex()}_{kind.decode()}{place or ''}"


def facet_columns(place: int) -> tuple[str, str, str]:
    """The columns of a facet: its value if it is a text or a boolean, a number, or a date.

    A text that is a date is in two. The first has the kind and the key of the value in hexadecimal,
    the other columns have the integer that `integer_of` makes of the key, in the order of the keys.
    A document without a value has the value of `NO_VALUES`.
    """
    return f"facet_{place}", f"facet_{place}_number", f"facet_{place}_date"


def integer_of(key: bytes) -> int:
    """The key of a number or a date (8 bytes) as a signed integer of the same order."""
    return int.from_bytes(key) - (1 << 63)
