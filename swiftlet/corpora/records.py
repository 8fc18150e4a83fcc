"""One line of JSON or of tab-separated columns, or one row, to a document or a query."""

import json
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date, time
from decimal import Decimal
from itertools import pairwise
from typing import Any, NoReturn
from uuid import UUID

import numpy as np

from swiftlet.corpora.fields import ID_FIELDS, Fields
from swiftlet.corpora.identifiers import check_id
from swiftlet.corpora.lines import LineError, wrong_columns
from swiftlet.errors import CollectionError, shown
from swiftlet.text import has_lone_surrogate
from swiftlet.types import Document, EmbeddedDocument, Query, Section

EMBEDDING = "embedding"
"""The field with the vector of a document, which is never metadata."""

LONGEST_METADATA = 1 << 20
"""The most characters of a document's metadata, as JSON; each hit of an answer has them."""

FEWEST_NUMBERS = 32
"""From this many numbers on, at least one of them with a point, a list is taken for a vector."""

_DEEPEST_NESTING = 64
_LONGEST_NUMBER = 4_300
_QUERY_ID_FIELDS = ("_id", "id", "query_id")
_JSON_TYPES = {type(None): "null", bool: "a boolean", int: "a number", float: "a number"}
_JSON_TYPES |= {str: "a string", list: "an array", dict: "an object"}


def document_from_json(line: str, fields: Fields | None = None) -> Document:
    """A document from a JSON object with these fields, or the fields of `_from_fields`.

    :raises LineError: When the line is no such object.
    """
    record = record_of(line)
    document = _from_fields(record, fields)
    if len(line) > LONGEST_METADATA:
        _check_length(document.metadata)
    return document


def _from_fields(record: dict[str, Any], fields: Fields | None) -> Document:
    """A document from an id, "text" and optionally "title" and "metadata"; empties `record`.

    The id is the first existing field of "_id", "id" and "document_id". A list of numbers in
    "embedding" is the document's vector; it may have no text then. All further fields become
    metadata; if "metadata" has the same name, its value is kept. A blank "text" is accepted if
    there is a title: then the title alone is the document.

    :raises LineError: When a field is missing or of another type.
    """
    if fields is not None:
        record = fields.of(record)
    document_id = _pop_id(record, ID_FIELDS, "document id")
    metadata = record.pop("metadata", None)
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, Mapping):
        raise LineError(f'"metadata" is {_type_name(metadata)}, not an object')
    title = record.pop("title", None)
    if title is None:
        title = ""
    embedding = record.pop(EMBEDDING) if _is_embedding(record.get(EMBEDDING)) else None
    text = _pop_text(record) if embedding is None or "text" in record else ""
    if not isinstance(title, str):
        raise LineError(f'"title" is {_type_name(title)}, not a string')
    title = title if title.strip() else ""
    if embedding is not None:
        return EmbeddedDocument(
            document_id, text, title, {**record, **metadata}, embedding=embedding
        )
    if not title and not text.strip():
        raise LineError(_nothing_to_read(document_id))
    return Document(document_id, text, title, {**record, **metadata})


def document_from_row(row: object, fields: Fields | None = None) -> Document:
    """The document of a row: a `Document`, or a mapping as `documents_of` takes it.

    :param fields: The names of a mapping's fields, if they are not the usual names.
    :raises LineError: When it is neither, or has no valid id, or neither text nor title, or
        metadata that cannot be stored.
    """
    if isinstance(row, Mapping):
        filled = {name: value for name, value in row.items() if not _is_missing(value)}
        document = _from_fields(filled, fields)
    elif isinstance(row, Document):
        known: dict[str, Any] = {"id": row.document_id, "text": row.text, "title": row.title}
        if isinstance(row, EmbeddedDocument):
            known[EMBEDDING] = row.embedding
        document = _from_fields({**known, "metadata": row.metadata}, None)
        _check_sections(row.sections, len(row.text))
        document = replace(document, sections=row.sections)
    else:
        raise LineError(f"{shown(row)} is of the type {type(row).__name__}, not a dict or Document")
    metadata = _stored(document.metadata)
    _check_nesting(metadata)
    document = replace(document, metadata=metadata)
    written = json.dumps(metadata, ensure_ascii=False)
    if len(written) > LONGEST_METADATA:
        _check_length(metadata)
    if any(map(has_lone_surrogate, (document.title, document.text, written))):
        raise LineError(
            f"the document {shown(document.document_id)} holds half of a surrogate pair"
        )
    return document


def without_vectors(
    documents: Iterable[Document], kept: Collection[str], note: Callable[[str], None]
) -> Iterator[Document]:
    """The documents, whose metadata lose each vector that is not `kept`: hits would show it.

    :param note: Takes a sentence about each field that is left out.
    """
    noted = set[str]()
    for document in documents:
        metadata = document.metadata
        if found := {name for name in metadata if _is_vector(metadata[name])}.difference(kept):
            for name in sorted(found - noted):
                note(left_out_vector(name))
            noted |= found
            rest = {name: value for name, value in metadata.items() if name not in found}
            document = replace(document, metadata=rest)  # noqa: PLW2901
        yield document


def to_encode(documents: Iterable[Document], note: Callable[[str], None]) -> Iterator[Document]:
    """The documents without their own embeddings, since an encoder makes others.

    :raises CollectionError: When a document has nothing but an embedding.
    """
    noted = False
    for document in documents:
        if isinstance(document, EmbeddedDocument):
            if not noted:
                note(left_out_vector(EMBEDDING))
                noted = True
            if not document.title and not document.text.strip():
                raise CollectionError("the corpus", _nothing_to_read(document.document_id))
            yield document.plain
        else:
            yield document


def _nothing_to_read(document_id: str) -> str:
    return f"the document {shown(document_id)} has neither text nor title"


def left_out_vector(name: str) -> str:
    """The sentence about a field with vectors."""
    return f"{shown(name)} is left out: it has vectors, which swiftlet adopt takes, not metadata"


def _is_vector(value: object) -> bool:
    if not isinstance(value, list | tuple) or len(value) < FEWEST_NUMBERS:
        return False
    kinds = {type(each) for each in value}
    return float in kinds and kinds <= {int, float}


def query_from_json(line: str) -> Query:
    """A query from a JSON object with an id ("_id", "id" or "query_id") and "text".

    :raises LineError: When the line is no such object.
    """
    record = record_of(line)
    query_id = _pop_id(record, _QUERY_ID_FIELDS, "query id")
    return query(query_id, _pop_text(record))


def query_text_from_json(line: str) -> str:
    """The text of a query from a JSON object with "text" or "query"; it needs no id.

    :raises LineError: When the line is no such object.
    """
    record = record_of(line)
    if "text" not in record and "query" in record:
        record["text"] = record.pop("query")
    return query("without an id", _pop_text(record)).text


def documents_from_columns() -> Callable[[str], Document]:
    """Reads MS MARCO's tab-separated passages (pid, text) or documents (docid, url, title, body).

    The first good line determines which of the two all lines have; a url becomes metadata. Raises
    `LineError` for another number of columns, or one that is no id or no text.
    """
    expected: tuple[int, ...] = (2, 4)

    def read(line: str) -> Document:
        nonlocal expected
        columns = line.split("\t")
        if len(columns) not in expected:
            raise wrong_columns(len(columns), " or ".join(map(str, expected)))
        names = ("id", "text") if len(columns) == 2 else ("id", "url", "title", "text")
        document = _from_fields(dict(zip(names, columns, strict=True)), None)
        expected = (len(columns),)
        return document

    return read


def query_from_columns(line: str) -> Query:
    """A query from two tab-separated columns, id and text.

    :raises LineError: When there are not two columns, or one is no id or no text.
    """
    columns = line.split("\t")
    if len(columns) != 2:
        raise wrong_columns(len(columns), "2")
    return query(check_id(columns[0], "query id"), columns[1])


def query(query_id: str, text: str) -> Query:
    """A query with a text that can be searched.

    :raises LineError: When the text is blank or holds a NUL character, which no searcher accepts.
    """
    if not text or text.isspace():
        raise LineError(f"the query {shown(query_id)} has no text")
    if "\0" in text:
        raise LineError(f"the query {shown(query_id)} holds a NUL character")
    return Query(query_id, text)


def _pop_id(record: dict[str, Any], fields: tuple[str, ...], name: str) -> str:
    for field in fields:
        if field in record:
            return check_id(record.pop(field), name)
    raise LineError(f"there is no {name}: none of the fields {', '.join(fields)}")


def _pop_text(record: dict[str, Any]) -> str:
    if "text" not in record:
        others = f"; besides the id there are {shown(sorted(record))}" if record else ""
        raise LineError(f'there is no "text"{others}')
    text = record.pop("text")
    if not isinstance(text, str):
        raise LineError(f'"text" is {_type_name(text)}, not a string')
    return text


def record_of(line: str) -> dict[str, Any]:
    """The JSON object of a line.

    :raises LineError: When the line is none, or it is nested too deeply.
    """
    try:
        record = FINITE_JSON.decode(line)
    except json.JSONDecodeError as error:
        raise LineError(f"not valid JSON: {error.msg} at column {error.colno}") from error
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        raise LineError(f"not valid JSON: {_reason(error)}") from error
    if not isinstance(record, dict):
        raise LineError(f"the record is {_type_name(record)}, not a JSON object")
    # In valid UTF-8, half of a surrogate pair can only come from an escape.
    if "\\ud" in line or "\\uD" in line:
        for field, value in record.items():
            if has_lone_surrogate(json.dumps([field, value], ensure_ascii=False)):
                raise LineError(f"{shown(field)} holds half of a surrogate pair")
    if line.count("{") + line.count("[") > _DEEPEST_NESTING:
        _check_nesting(record)
    return record


def _check_nesting(value: object) -> None:
    """Refuse values that are nested so deeply that writing them as JSON may exhaust the stack."""
    values: list[Any] = [value]
    for _ in range(_DEEPEST_NESTING + 1):
        values = [item for item in values if isinstance(item, dict | list)]
        if not values:
            return
        values = [
            inner
            for item in values
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
    raise _too_deep()


def _too_deep() -> LineError:
    return LineError(f"nested more than {_DEEPEST_NESTING} levels deep")


def _check_length(metadata: Mapping[str, Any]) -> None:
    """Refuse metadata of more than `LONGEST_METADATA` characters; the message has the longest."""
    lengths = {name: len(json.dumps(value, ensure_ascii=False)) for name, value in metadata.items()}
    if (length := sum(lengths.values())) > LONGEST_METADATA:
        longest = max(lengths, key=lengths.__getitem__)
        raise LineError(
            f"the metadata have {length:,} characters as JSON, {lengths[longest]:,} of them in "
            f"{shown(longest)}; at most {LONGEST_METADATA:,} are expected: leave out what answers "
            "need not show"
        )


def _stored(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata as JSON stores them: dates and times become strings, as in ISO 8601.

    NaN is a missing value: a field without one, null in a list.
    """
    found = {name: value for name, value in metadata.items() if not _is_missing(value)}
    try:
        stored: dict[str, Any] = _READ.decode(json.dumps(found, default=_plain))
    except (TypeError, ValueError, RecursionError) as error:
        (name, *others) = found
        for each in (name, *others) if others else ():
            _stored({each: found[each]})
        raise LineError(
            f"the metadata cannot be stored as JSON: {shown(name)} ({_reason(error)}); convert "
            "it to text or numbers, or leave it out"
        ) from error
    return stored


def _reason(error: Exception) -> str:
    """The text of an error; Python's own sentence on long integers advises programmers."""
    if "set_int_max_str_digits" not in f"{error}":
        return f"{error}"
    return f"an integer has more than {sys.get_int_max_str_digits():,} digits: write it as a string"


def _is_missing(value: object) -> bool:
    """Whether it is NaN, or NaT or NA of pandas: none of them is equal to itself."""
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, float | np.floating | np.datetime64 | np.timedelta64 | date):
        return bool(value != value)  # noqa: PLR0124
    return type(value).__name__ == "NAType"


def _plain(value: object) -> object:
    """A value that JSON does not have, as one that it has."""
    if _is_missing(value):
        return None
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, UUID):
        return f"{value}"
    if isinstance(value, np.generic | np.ndarray):
        return _of_numpy(value)
    if isinstance(value, Decimal) and value.is_finite():
        if value == value.to_integral_value() and value.adjusted() < _LONGEST_NUMBER:
            return int(value)
        # A number only if its digits are those of a float.
        return float(value) if Decimal(f"{float(value)!r}") == value else f"{value}"
    raise TypeError(f"a value of the type {type(value).__name__}")


def _of_numpy(value: "np.generic | np.ndarray[Any, Any]") -> object:
    """A value without NumPy, which has only integers for times in nanoseconds: these are texts."""
    if value.dtype.kind not in "mM":
        return value.tolist()
    if isinstance(value, np.ndarray):
        return [*value] if value.ndim else value[()]
    if not isinstance(value, np.datetime64):
        raise TypeError("a length of time")
    found = next(
        (
            each
            for each in (value, value.astype("datetime64[us]"))
            if each == value and isinstance(each.tolist(), date)
        ),
        None,
    )
    return f"{value}" if found is None else found.tolist()


def _check_sections(sections: tuple[Section, ...], length: int) -> None:
    spans = tuple((section.start, section.end) for section in sections)
    bounds = [0, *(bound for span in spans for bound in span), length]
    if any(earlier > later for earlier, later in pairwise(bounds)):
        raise LineError(
            f"the sections {shown(spans)} are not in order within the text's {length} characters"
        )


def _is_embedding(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.size > 0 and value.dtype.kind in "fiu"
    return (
        isinstance(value, list | tuple)
        and len(value) > 0
        and all(isinstance(each, float) or type(each) is int for each in value)
    )


def _type_name(value: object) -> str:
    return _JSON_TYPES.get(type(value), f"of the type {type(value).__name__}")


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"the number {shown(number)} is too large")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


FINITE_JSON = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse_constant)
"""Reads JSON, and refuses NaN, Infinity and numbers that are too large for a float."""


def _constant(name: str) -> None:
    if name != "NaN":
        raise ValueError(f"the number {name} is not finite")


_READ = json.JSONDecoder(parse_constant=_constant)
