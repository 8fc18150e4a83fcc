"""Documents from rows in memory or of tables: dicts, or documents."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, time
from decimal import Decimal
from itertools import pairwise
from typing import Any
from uuid import UUID

import numpy as np

from swiftlet.corpora.fields import Fields
from swiftlet.corpora.lines import LineError
from swiftlet.corpora.records import (
    LONGEST_METADATA,
    check_length,
    check_nesting,
    document_from_fields,
)
from swiftlet.errors import shown
from swiftlet.text import has_lone_surrogate
from swiftlet.types import Document, Section

_LONGEST_NUMBER = 4_300


def _constant(name: str) -> None:
    if name != "NaN":
        raise ValueError(f"the number {name} is not finite")


_READ = json.JSONDecoder(parse_constant=_constant)


def document_from_row(row: object, fields: Fields | None = None) -> Document:
    """The document of a row: a `Document`, or a mapping as `documents_of` takes it.

    :param fields: The names of a mapping's fields, if they are not the usual names.
    :raises LineError: When it is neither, or has no valid id, or neither text nor title, or
        metadata that cannot be stored.
    """
    if isinstance(row, LineError):
        raise row
    if isinstance(row, Mapping):
        filled = {name: value for name, value in row.items() if not _is_missing(value)}
        document = document_from_fields(filled if fields is None else fields.of(filled))
    elif isinstance(row, Document):
        known = {"id": row.document_id, "text": row.text, "title": row.title}
        document = document_from_fields({**known, "metadata": row.metadata})
        _check_sections(row.sections, len(row.text))
        document = replace(document, sections=row.sections)
    else:
        raise LineError(f"{shown(row)} is of the type {type(row).__name__}, not a dict or Document")
    metadata = _stored(document.metadata)
    check_nesting(metadata)
    document = replace(document, metadata=metadata)
    written = json.dumps(metadata, ensure_ascii=False)
    if len(written) > LONGEST_METADATA:
        check_length(metadata)
    if any(map(has_lone_surrogate, (document.title, document.text, written))):
        raise LineError(
            f"the document {shown(document.document_id)} holds half of a surrogate pair"
        )
    return document


def _stored(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata as JSON stores them: dates and times become strings, as in ISO 8601.

    NaN is a missing value: a field without one, null in a list.
    """
    stored: dict[str, Any] = {}
    for name, value in metadata.items():
        if _is_missing(value):
            continue
        try:
            written = json.dumps({name: value}, default=_plain)
            stored |= _READ.decode(written)
        except (TypeError, ValueError, RecursionError) as error:
            raise LineError(
                f"the metadata cannot be stored as JSON: {shown(name)} ({error}); convert it to "
                "text or numbers, or leave it out"
            ) from error
    return stored


def _is_missing(value: object) -> bool:
    """Whether it is NaN, or NaT of pandas: neither is equal to itself."""
    return isinstance(value, float | np.floating | date) and value != value  # noqa: PLR0124


def _plain(value: object) -> object:
    """A value that JSON does not have, as one that it has."""
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, UUID):
        return f"{value}"
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Decimal) and value.is_finite():
        if value == value.to_integral_value() and value.adjusted() < _LONGEST_NUMBER:
            return int(value)
        # A number only if its digits are those of a float.
        return float(value) if Decimal(f"{float(value)!r}") == value else f"{value}"
    raise TypeError(f"a value of the type {type(value).__name__}")


def _check_sections(sections: tuple[Section, ...], length: int) -> None:
    spans = tuple((section.start, section.end) for section in sections)
    bounds = [0, *(bound for span in spans for bound in span), length]
    if any(earlier > later for earlier, later in pairwise(bounds)):
        raise LineError(
            f"the sections {shown(spans)} are not in order within the text's {length} characters"
        )
