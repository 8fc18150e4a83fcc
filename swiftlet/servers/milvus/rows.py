"""Documents as rows of a collection, and rows as documents."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from swiftlet.errors import ChangedMeanwhileError, InvalidArgumentError, shown
from swiftlet.servers.milvus import schema
from swiftlet.servers.milvus.collection import Collection
from swiftlet.servers.milvus.filters import (
    NAMES,
    NO_VALUES,
    FilterFields,
    facet_columns,
    facet_values,
    keys_field,
)
from swiftlet.servers.words import WordVectors
from swiftlet.types import Document, Embeddings, Span

Row = dict[str, Any]

_MOST_VALUES = 64
_MOST_BYTES = 4  # of a character
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
        schema.DOCUMENT_ID: document.document_id,
        schema.PASSAGES: len(spans),
        schema.TITLE: document.title,
        schema.METADATA: json.dumps(document.metadata, ensure_ascii=False),
        schema.KEYS: keys,
    }
    _check_metadata(document, keys)
    for place, path in enumerate(facets):
        of_kinds: tuple[Sequence[str | int], ...] = ([], [], [])
        if path is not None:
            of_kinds = facet_values(keys, path)
        columns = zip(facet_columns(place), of_kinds, NO_VALUES, strict=True)
        of_all |= {column: values[0] if values else none for column, values, none in columns}
    vectors = iter(()) if words is None else words.of(document, spans)
    ends = [0]
    for _, end in spans:
        ends.append(max(ends[-1], end))
    for number, ((start, end), embedding) in enumerate(zip(spans, embeddings, strict=True)):
        row = {
            schema.ROW: schema.row_of(document.document_id, number),
            **of_all,
            schema.NUMBER: number,
            schema.START: start,
            schema.END: end,
            schema.TEXT: document.text[start:end],
            schema.BEFORE: document.text[ends[number] : start],
            schema.AFTER: document.text[ends[-1] :] if number == len(spans) - 1 else "",
            schema.SECTIONS: json.dumps(document.sections) if number == 0 else "[]",
            schema.HEADING: document.heading_at(start),
            schema.EMBEDDING: embedding,
        }
        if words is not None:
            row[schema.WORDS] = next(vectors)
        _check_sizes(document, row)
        yield row


def with_rows(fields: FilterFields, rows: Iterable[Row]) -> FilterFields:
    """The fields that filters compare, with the values of `rows` added."""
    for row in rows:
        if row[schema.NUMBER] == 0:
            fields = fields.with_keys(row[schema.KEYS])
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
        schema.DOCUMENT_ID: schema.LONGEST_ID,
        **dict.fromkeys(schema.TEXTS, schema.LONGEST_TEXT),
    }
    for name, most in limits.items():
        if _MOST_BYTES * len(row[name]) <= most:
            continue
        size = len(row[name].encode(errors="surrogatepass"))
        if size > most:
            what = {
                schema.BEFORE: "text outside its passages",
                schema.AFTER: "text outside its passages",
                schema.TEXT: "text of a passage",
                schema.DOCUMENT_ID: "id",
            }.get(name, name)
            raise InvalidArgumentError(
                f"the document {shown(document.document_id)} has {size:,} bytes of {what}; on "
                f"Milvus at most {most:,} are expected"
                + (": build the index without --truncate" if "outside" in what else _WAY_OUT)
            )
    if len(json.dumps(row[schema.KEYS])) > schema.LONGEST_TEXT:
        raise InvalidArgumentError(
            f"the document {shown(document.document_id)} has more metadata than the "
            f"{schema.LONGEST_TEXT:,} bytes that Milvus keeps for filters{_WAY_OUT}"
        )


def read_documents(
    collection: Collection, document_ids: Sequence[str], extra_fields: Sequence[str] = ()
) -> dict[str, tuple[Document, list[Row]]]:
    """The documents with these ids, each with the rows of its passages in order.

    :raises ChangedMeanwhileError: When a passage is missing.
    """
    numbers = [schema.DOCUMENT_ID, schema.PASSAGES]
    firsts = collection.rows([schema.row_of(each, 0) for each in document_ids], numbers)
    wanted = {
        document_id: [schema.row_of(document_id, number) for number in range(row[schema.PASSAGES])]
        for row in firsts.values()
        if (document_id := row[schema.DOCUMENT_ID]) in {*document_ids}
    }
    found = collection.rows([*chain(*wanted.values())], [*schema.OF_DOCUMENTS, *extra_fields])
    documents = {}
    for document_id, rows in wanted.items():
        if any(row not in found for row in rows):
            raise ChangedMeanwhileError(f"the document {shown(document_id)} has just changed")
        passages = [found[row] for row in rows]
        documents[document_id] = _document(passages), passages
    return documents


def _document(passages: Sequence[Row]) -> Document:
    """A document from its passages, which overlap, and the texts between them."""
    text = ""
    for passage in passages:
        text += passage[schema.BEFORE]
        text += passage[schema.TEXT][len(text) - passage[schema.START] :]
    first = passages[0]
    return Document(
        first[schema.DOCUMENT_ID],
        text + passages[-1][schema.AFTER],
        first[schema.TITLE],
        json.loads(first[schema.METADATA]),
        json.loads(first[schema.SECTIONS]),
    )
