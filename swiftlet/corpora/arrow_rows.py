"""Rows of Arrow's record batches, as values that Python has."""

from collections.abc import Iterator
from typing import Any

from swiftlet.corpora.lines import LineError
from swiftlet.errors import shown

_NANOSECONDS = 1_000
_REASON_CHARACTERS = 100
_ERRORS = (ValueError, OverflowError, ArithmeticError, TypeError, LookupError)
_TEXTS = frozenset({"string", "large_string", "string_view"})


def rows_of(batch: Any) -> Iterator[dict[str, Any] | LineError]:
    """The filled cells of each row by column, or what is wrong with the row.

    Times in nanoseconds are texts, as in ISO 8601.
    """
    try:
        names, types = batch.schema.names, [f"{column.type}" for column in batch.columns]
    except UnicodeDecodeError:
        yield from [LineError("the name of a column is not valid UTF-8")] * batch.num_rows
        return
    columns = [_values(*each) for each in zip(batch.columns, types, strict=True)]
    for cells in zip(*columns, strict=True):
        bad = next((place for place, cell in enumerate(cells) if isinstance(cell, Exception)), None)
        if bad is not None:
            name, reason = names[bad], f"{cells[bad]}".partition("\n")[0]
            yield LineError(f"{shown(name)} cannot be read: {reason[:_REASON_CHARACTERS]}")
        else:
            named = zip(names, cells, strict=True)
            yield {name: cell for name, cell in named if cell is not None}


def _values(column: Any, kind: str) -> list[Any]:
    """The values of a column; an error stands for each that Python cannot have."""
    from pyarrow import ArrowInvalid

    try:
        column.validate(full=True)  # of a damaged file, values would be read beyond their memory
        if "[ns" not in kind:
            return list(column.to_pylist())
    except _ERRORS as error:
        is_text = kind in _TEXTS and "UTF8" in f"{error}"
        if isinstance(error, ArrowInvalid) and not is_text:
            return [error] * len(column)
    return [_value_or_error(scalar) for scalar in column]  # one of them is bad, or has nanoseconds


def _value_or_error(scalar: Any) -> Any:
    try:
        return _value(scalar)
    except _ERRORS as error:
        return error


def _value(scalar: Any) -> Any:
    """The value of a scalar; pandas, which Arrow would ask for nanoseconds, may be missing."""
    from pyarrow import types

    kind = scalar.type
    if not scalar.is_valid:
        return None
    if types.is_dictionary(kind):
        return _value(scalar.value)
    if types.is_struct(kind):
        return {kind.field(place).name: _value(scalar[place]) for place in range(len(kind))}
    if types.is_nested(kind) and hasattr(scalar, "values"):
        values = [_value(each) for each in scalar.values]
        return [(*pair.values(),) for pair in values] if types.is_map(kind) else values
    in_nanoseconds = getattr(kind, "unit", "") == "ns" and not types.is_duration(kind)
    return _iso_text(scalar) if in_nanoseconds else scalar.as_py()


def _iso_text(scalar: Any) -> str:
    """A moment or a time of day in ISO 8601, with three more digits if they are not 0."""
    import pyarrow
    from pyarrow import types

    microseconds, more = divmod(scalar.value, _NANOSECONDS)
    if types.is_timestamp(scalar.type):
        kind = pyarrow.timestamp("us", scalar.type.tz)
    else:
        kind = pyarrow.time64("us")
    value = pyarrow.scalar(microseconds, kind).as_py()
    text = f"{value.isoformat()}"
    if not more:
        return text
    whole = value.isoformat(timespec="microseconds")
    end = whole.index(".") + 1 + len("000000")
    return f"{whole[:end]}{more:03}{whole[end:]}"
