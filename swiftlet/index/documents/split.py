"""Documents of a store, with the passages that they were split into."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from swiftlet.database import (
    checked_texts,
    connect_read_only,
    damage,
    parse_metadata,
    parse_sections,
)
from swiftlet.types import Document, Span


@dataclass(frozen=True, slots=True)
class SplitDocument(Document):
    """A document with the spans of its passages."""

    passages: tuple[Span, ...] = ()


def stored_documents(path: Path) -> Iterator[SplitDocument]:
    """All documents of the store at `path`, in the order of the corpus.

    :raises CorruptIndexError: When it is damaged.
    """
    with damage(path), closing(connect_read_only(path)) as store:
        documents = store.execute(
            "SELECT document_id, text, title, metadata, sections FROM documents ORDER BY document"
        )
        passages = store.execute("SELECT document, start, end FROM passages ORDER BY passage")
        split = groupby(passages, itemgetter(0))
        for record, (_, rows) in zip(documents, split, strict=True):
            checked_texts(path, *record)
            spans = tuple((int(start), int(end)) for _, start, end in rows)
            document_id, text, title, metadata, sections = record
            parsed = parse_metadata(metadata, path), parse_sections(sections, path)
            yield SplitDocument(document_id, text, title, *parsed, spans)
