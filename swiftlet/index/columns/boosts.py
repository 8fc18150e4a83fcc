"""What documents gain in a search by their metadata: recent ones, large ones, those of a filter."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from swiftlet.errors import InvalidArgumentError, UnknownFieldError, shown, shown_json
from swiftlet.index.columns.columns import Columns, field_keys, parse_date
from swiftlet.index.columns.filters import Filter, check_fields, parse_filter, passing
from swiftlet.types import Embeddings

MOST_BOOSTS = 8
"""The boosts of one search."""

_DAY = timedelta(days=1) / timedelta(microseconds=1)
_EXPECTED = (
    'an object is expected, such as {"field": "modified", "half_life_days": 30, "weight": 0.1}, '
    '{"field": "stars", "half_value": 100, "weight": 0.1} or {"filter": {"kind": "report"}, '
    f'"weight": 0.1}}, or a list of at most {MOST_BOOSTS} of them'
)
_LARGEST = 1e9


@dataclass(frozen=True, slots=True)
class Boost:
    """Adds up to `weight` to the score of a document.

    A date in `field` adds weight / 2^(age / half), an age and a half-life in days, counted back
    from `origin`; a number adds weight · number / (number + half). A document with several values
    has the largest. All documents that pass a `filter` get the whole weight.
    """

    weight: float
    field: str = ""
    half: float = 0
    is_date: bool = False
    origin: datetime | None = None
    filter: Filter | None = None

    def shares(self, columns: Columns, num_documents: int) -> NDArray[np.float64]:
        """The share of the weight that each document gets, (num_documents,), from 0 to 1."""
        if self.filter is not None:
            return passing(self.filter, columns, num_documents).astype(np.float64)
        kind = b"d" if self.is_date else b"n"
        codes = columns.codes(field_keys(self.field, kind))
        shares = np.zeros(num_documents)
        if self.is_date:
            age = (_microseconds(self.origin) - columns.dates(codes)) / _DAY
            of_values = 0.5 ** (np.maximum(age, 0) / self.half)
        else:
            with np.errstate(divide="ignore", over="ignore"):  # a number of 0 gets nothing
                of_values = 1 / (1 + self.half / np.maximum(columns.floats(codes), 0))
        found = np.repeat(np.nan_to_num(of_values), columns.counts(codes))
        np.maximum.at(shares, columns.documents(codes), found)
        return shares


class Gains(NamedTuple):
    """What each passage gains by its document, (passages,), and the most that one gains."""

    by_row: Embeddings
    most: np.float32


Boosts = tuple[Boost, ...]

BoostObjects = tuple[Mapping[str, Any], ...]
"""Boosts as JSON has them."""


def parse_boosts(value: object) -> Boosts:
    """The boosts that an object of JSON describes, or a list of them.

    What this function returned is not parsed again.

    :raises InvalidArgumentError: When it is none.
    :raises FilterError: When a filter in it is malformed.
    """
    listed = value if isinstance(value, list | tuple) else [value]
    if len(listed) > MOST_BOOSTS:
        raise InvalidArgumentError(f"boost has {len(listed)} parts, but {_EXPECTED}")
    return tuple(each if isinstance(each, Boost) else _parse(each) for each in listed)


def at_day(boosts: Boosts, now: datetime) -> Boosts:
    """The boosts, ages counted from the end of the day: all pages of a day have one order."""
    tomorrow = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    tomorrow += timedelta(days=1)
    return tuple(
        replace(each, origin=tomorrow) if each.is_date and each.origin is None else each
        for each in boosts
        if each.weight
    )


def gains_of(boosts: Boosts, columns: Columns, num_documents: int) -> NDArray[np.float64]:
    """What each document gains, (num_documents,)."""
    gains = np.zeros(num_documents)
    for boost in boosts:
        gains += boost.weight * boost.shares(columns, num_documents)
    return gains


def check_boosts(boosts: Iterable[Boost], parts: Sequence[Columns]) -> None:
    """Refuse boosts by fields, or by kinds of values, that no document in `parts` has.

    :raises InvalidArgumentError: When there is one.
    """
    for boost in boosts:
        if boost.filter is not None:
            check_fields(boost.filter, parts)
            continue
        kind, name = (b"d", "date") if boost.is_date else (b"n", "number")
        if not any(columns.codes(field_keys(boost.field, kind)) for columns in parts):
            fields = sorted({each for columns in parts for each in columns.fields()})
            raise UnknownFieldError(
                boost.field,
                f"boost names {shown(boost.field)}, but no document has a {name} in it; the fields "
                f"of the documents are {shown(fields)}",
                field="boost",
            )


def _parse(value: object) -> Boost:
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(f"boost is {shown_json(value)}, but {_EXPECTED}")
    fields = dict(value)
    weight = _number(fields, "weight", 0, 1)
    if "filter" in fields:
        found = Boost(weight, filter=parse_filter(fields.pop("filter")))
    else:
        field = fields.pop("field", None)
        if not isinstance(field, str) or not field:
            raise InvalidArgumentError(
                f"boost has the field {shown_json(field)}, but the name of a field of the metadata "
                "is expected, or a filter"
            )
        is_date = "half_life_days" in fields
        half = _number(fields, "half_life_days" if is_date else "half_value", 1e-6, _LARGEST)
        found = Boost(weight, field, half, is_date)
        if is_date and "origin" in fields:
            found = replace(found, origin=_origin(fields.pop("origin")))
    if fields:
        raise InvalidArgumentError(f"boost has {shown_json(next(iter(fields)))}, but {_EXPECTED}")
    return found


def _number(fields: dict[Any, Any], name: str, least: float, most: float) -> float:
    value = fields.pop(name, None)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:
        raise InvalidArgumentError(
            f"boost has the {name} {shown_json(value)}, but a number from {least:g} to {most:g} is "
            "expected"
        )
    return float(value)


def _origin(value: object) -> datetime:
    moments = parse_date(value) if isinstance(value, str) else None
    if moments is None:
        raise InvalidArgumentError(
            f"boost has the origin {shown_json(value)}, but an ISO date such as 2026-12-31 is "
            "expected"
        )
    return moments[1]


def _microseconds(moment: datetime | None) -> int:
    if moment is None:
        raise ValueError("the origin of a boost is not known: see at_day")
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
