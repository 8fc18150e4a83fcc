"""Filters as conditions of SQL."""

from psycopg.sql import SQL, Composed

from swiftlet.index.columns.columns import KeyRange
from swiftlet.index.columns.filters import Condition, Filter, fold
from swiftlet.servers.postgres.table import Table

Predicate = tuple[Composed, list[bytes]]
"""A condition of SQL, with the values in the places of its %s."""

EVERYTHING: Predicate = (SQL("true").format(), [])
"""All documents."""

_AND, _OR = SQL(" AND "), SQL(" OR ")


def predicate_of(table: Table, tree: Filter) -> Predicate:
    """The documents that pass a filter, as a condition on the column `document`."""

    def compiled(part: Condition | Predicate) -> Predicate:
        if not isinstance(part, Condition):
            return part
        keys, values = keys_in(part.keys)
        text = "(document IN (SELECT document FROM {keys} WHERE {condition}))"
        return table.sql(text, condition=keys), values

    def every(parts: list[Condition | Predicate]) -> Condition | Predicate:
        return _joined(_AND, [*map(compiled, parts)]) if parts else EVERYTHING

    def some(parts: list[Condition | Predicate]) -> Condition | Predicate:
        # One look at the table of keys for all values, instead of one for each.
        if all(isinstance(part, Condition) for part in parts):
            keys = (keys for part in parts if isinstance(part, Condition) for keys in part.keys)
            return Condition("", tuple(keys))
        return _joined(_OR, [*map(compiled, parts)])

    def without(part: Condition | Predicate) -> Condition | Predicate:
        condition, values = compiled(part)
        return SQL("(NOT {})").format(condition), values

    return compiled(fold(tree, lambda condition: condition, every, some, without))


def both(one: Predicate, other: Predicate) -> Predicate:
    """What passes two conditions."""
    return _joined(_AND, [one, other])


def keys_in(ranges: tuple[KeyRange, ...]) -> Predicate:
    """The rows of the table `keys` in one of the ranges."""
    if not ranges:
        return SQL("false").format(), []
    return _joined(_OR, [(SQL("(key >= %s AND key < %s)").format(), [*keys]) for keys in ranges])


def _joined(by: SQL, parts: list[Predicate]) -> Predicate:
    found = by.join(condition for condition, _ in parts)
    return SQL("({})").format(found), [value for _, values in parts for value in values]
