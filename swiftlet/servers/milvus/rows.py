"""Documents as rows of a collection."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from swiftlet.errors import InvalidArgumentError, shown
from swiftlet.servers.milvus.filter_fields import FilterFields, facet_values
from swiftlet.servers.milvus.schema import (
    AFTER,
    BEFORE,
    DOCUMENT_ID,
    EMBEDDING,
    END,
    HEADING,
    KEYS,
    LONGEST_ID,
    LONGEST_TEXT,
    METADATA,
    NAMES,
    NO_VALUES,
    NUMBER,
    PASSAGES,
    ROW,
    SECTIONS,
    START,
    TEXT,
    TITLE,
    WORDS,
    facet_columns,
    keys_field,
    row_of,
)
from swiftlet.servers.words import WordVectors
from swiftlet.types import Document, Embeddings, Span

Row = dict[str, Any]

_MOST_VALUES = 64
_MOST_BYTES = 4  # of a character
_NO_EMBEDDING = np.empty(0, np.float32)
_WAY_OUT = ": shorten it, or take the document out of the index"


def rows_of(
    document: Document,
    spans: Sequence[Span],
    embeddings: Sequence[Embeddings] | Embeddings,
    words: WordVectors | None = None,
    facets: Sequence[str | None] = (),
) -> Iterator[Row]:
    """A row for each passage of a document.

    :param spans: Those of the passages, in order.
    :param embeddings: Those of the passages, (n, dim).
    :param words: Gives the words of a passage, if the collection has words.
    :param facets: As in `FilterFields`.
    :raises InvalidArgumentError: When the document has more than a row can hold.
    """
    keys = keys_field(document.metadata)
    of_all = {
        DOCUMENT_ID: document.document_id,
        PASSAGES: len(spans),
        TITLE: document.title,
        METADATA: json.dumps(document.metadata, ensure_ascii=False),
        KEYS: keys,
    }
    _check_metadata(document, keys)
    for place, path in enumerate(facets):
        of_kinds: tuple[Sequence[str | int], ...] = ([], [], [])
        if path is not None:
            of_kinds = facet_values(keys, path)
        columns = zip(facet_columns(place), of_kinds, NO_VALUES, strict=True)
        of_all |= {column: values[0] if values else none for column, values, none in columns}
    ends = [0]
    for _, end in spans:
        ends.append(max(ends[-1], end))
    for number, ((start, end), embedding) in enumerate(zip(spans, embeddings, strict=True)):
        row = {
            ROW: row_of(document.document_id, number),
            **of_all,
            NUMBER: number,
            START: start,
            END: end,
            TEXT: document.text[start:end],
            BEFORE: document.text[ends[number] : start],
            AFTER: document.text[ends[-1] :] if number == len(spans) - 1 else "",
            SECTIONS: json.dumps(document.sections) if number == 0 else "[]",
            HEADING: document.heading_at(start),
            EMBEDDING: embedding,
        }
        if words is not None:
            row[WORDS] = words.of(document.title, row[TEXT])
        _check_sizes(document, row)
        yield row


def rows_without_embeddings(document: Document, spans: Sequence[Span]) -> list[Row]:
    """The rows of a document that is not encoded yet.

    :raises InvalidArgumentError: When the document has more than a row can hold.
    """
    return [*rows_of(document, spans, [_NO_EMBEDDING] * len(spans))]


def with_rows(fields: FilterFields, rows: Iterable[Row]) -> FilterFields:
    """The fields that filters compare, with the values of `rows` added."""
    for row in rows:
        if row[NUMBER] == 0:
            fields = fields.with_keys(row[KEYS])
    return fields


def _check_metadata(document: Document, keys: dict[str, list[str]]) -> None:
    for name, values in keys.items():
        if name != NAMES and len(values) > _MOST_VALUES:
            path = bytes.fromhex(name.partition("_")[0]).decode()
            raise InvalidArgumentError(
                f"the document {shown(document.document_id)} has {len(values)} values of the field "
                f"{shown(path)}; on Milvus at most {_MOST_VALUES} are expected{_WAY_OUT}"
            )


def _check_sizes(document: Document, row: Row) -> None:
    limits = {
        DOCUMENT_ID: LONGEST_ID,
        **dict.fromkeys((TITLE, METADATA, TEXT, BEFORE, AFTER, SECTIONS, HEADING), LONGEST_TEXT),
    }
    for name, most in limits.items():
        if _MOST_BYTES * len(row[name]) <= most:
            continue
        size = len(row[name].encode(errors="surrogatepass"))
        if size > most:
            what = {
                BEFORE: "text outside its passages",
                AFTER: "text outside its passages",
                TEXT: "text of a passage",
                DOCUMENT_ID: "id",
            }.get(name, name)
            raise InvalidArgumentError(
                f"the document {shown(document.document_id)} has {size:,} bytes of {what}; on "
                f"Milvus at most {most:,} are expected"
                + (": build the index without --truncate" if name in (BEFORE, AFTER) else _WAY_OUT)
            )
    if len(json.dumps(row[KEYS])) > LONGEST_TEXT:
        raise InvalidArgumentError(
            f"the document {shown(document.document_id)} has more metadata than the "
            f"{LONGEST_TEXT:,} bytes that Milvus keeps for filters{_WAY_OUT}"
        )
