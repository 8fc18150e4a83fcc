"""Documents of a store, with the passages that they were split into."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from swiftlet.index.documents.store import connect_read_only
from swiftlet.types import Document, Span


@dataclass(frozen=True, slots=True)
class SplitDocument(Document):
    """A document with the spans of its passages."""

    passages: tuple[Span, ...] = ()


def stored_documents(path: Path) -> Iterator[SplitDocument]:
    """All documents of the store at `path`, in the order of the corpus."""
    with closing(connect_read_only(path)) as store:
        documents = store.execute(
            "SELECT document_id, text, title, metadata, sections FROM documents ORDER BY document"
        )
        passages = store.execute("SELECT document, start, end FROM passages ORDER BY passage")
        split = groupby(passages, itemgetter(0))
        for (document_id, text, title, metadata, sections), (_, rows) in zip(
            documents, split, strict=True
        ):
            spans = tuple((start, end) for _, start, end in rows)
            parsed = json.loads(metadata), json.loads(sections)
            yield SplitDocument(document_id, text, title, *parsed, spans)
