"""The fields of a collection: a row is a passage."""

from hashlib import blake2b

ROW, DOCUMENT_ID, NUMBER, PASSAGES = "row", "document_id", "number", "passages"
START, END, TITLE, TEXT = "start", "end", "title", "text"
BEFORE, AFTER, SECTIONS, HEADING = "before", "after", "sections", "heading"
METADATA, KEYS, EMBEDDING, WORDS = "metadata", "keys", "embedding", "words"

PLACE, WITH_WORD, UNUSED = "place", "passages", "unused"
"""In the collection of words: the place of a word in the vectors of passages, and how many passages
have it. A collection must have a vector; this one is not searched."""

TEXTS = (TITLE, HEADING, TEXT, BEFORE, AFTER, SECTIONS, METADATA)
"""Of at most `LONGEST_TEXT` bytes each."""

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


def row_of(document_id: str, number: int) -> int:
    """The row of a passage: 63 bits of a hash, so that every writer finds it without asking."""
    content = f"{document_id}\0{number}".encode(errors="surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=8).digest()) >> 1
