"""The fields of rows and lines that hold the id, the title, the text and the metadata."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from swiftlet.arguments import Option
from swiftlet.corpora.lines import LineError
from swiftlet.errors import CollectionError, shown

_MOST_NAMES = 20
ID_FIELDS = ("_id", "id", "document_id")
"""The fields that may be the id of a document; the first existing field is."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The names of fields; those that are not given are as a line of JSON has them.

    The text is made of several fields, one below the other. With `metadata`, other fields are left
    out; without, all further fields are metadata.
    """

    id: Annotated[
        str | None,
        Option(
            "The field of JSON lines or tables with the id.", flag="--id-field", unset="_id or id"
        ),
    ] = None
    title: Annotated[
        str | None, Option("The field with the title.", flag="--title-field", unset="title")
    ] = None
    text: Annotated[
        Sequence[str],
        Option("The field with the text; may be repeated.", flag="--text-field", unset="text"),
    ] = ()
    metadata: Annotated[
        Sequence[str],
        Option("A field to keep as metadata; may be repeated.", unset="all further ones"),
    ] = ()
    _found: dict[str, None] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def texts(self) -> list[str]:
        """The fields that are never numbers."""
        return [*([self.id] if self.id else ID_FIELDS), self.title or "title", *self.text, "text"]

    def of(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """A record with the names that a line of JSON has.

        :raises LineError: When the id or all fields of the text are missing.
        """
        rest = dict(record)
        self._found.update(dict.fromkeys(record))
        found: dict[str, Any] = {}
        if self.id is not None:
            found[ID_FIELDS[0]] = _taken(rest, self.id, record)
        if self.title is not None:
            found["title"] = f"{rest.pop(self.title, None) or ''}"
        if self.text:
            if self.id in self.text and self.id not in rest:
                raise LineError(f"{shown(self.id)} is the id already: name another field as text")
            texts = [f"{rest.pop(name)}" for name in self.text if rest.get(name) is not None]
            found["text"] = "\n".join(texts) if texts else _taken(rest, self.text[0], record)
        if self.metadata:
            kept = {"title", "text", *self.metadata, *(ID_FIELDS if self.id is None else ())}
            rest = {name: value for name, value in rest.items() if name in kept}
        return rest | found

    def check(self, source: Path) -> None:
        """Check that each field was in one of the records of `source` so far.

        :raises CollectionError: When one was in none of them.
        """
        named = {*([self.title] if self.title else ()), *self.text, *self.metadata}
        if self._found and (missing := sorted(named - self._found.keys())):
            raise CollectionError(source, f"{_no_field(missing[0], self._found)}")


def check_columns(source: Path | str, names: Iterable[str]) -> None:
    """Check that no two columns have one name, since a row would lose the cell of the first.

    :raises CollectionError: When two have.
    """
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise CollectionError(source, f"the column {shown(twice)} is there twice: rename one")


def _no_field(name: str, record: Collection[str]) -> LineError:
    names = ", ".join(map(str, [*record][:_MOST_NAMES]))
    more = f" and {len(record) - _MOST_NAMES} more" if len(record) > _MOST_NAMES else ""
    return LineError(f"there is no {shown(name)}; the fields are {names}{more}")


def _taken(rest: dict[str, Any], name: str, record: Mapping[str, Any]) -> Any:
    """The value of a field, which is removed from the `rest` of a record."""
    if name not in rest:
        raise _no_field(name, record)
    return rest.pop(name)
