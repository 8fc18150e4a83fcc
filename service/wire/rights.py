"""The keys of a file: what each opens, which documents it shows, and how much it may ask."""

import asyncio
import json
import logging
import mmap
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from io import FileIO
from math import ceil
from pathlib import Path
from secrets import token_urlsafe
from time import monotonic
from typing import Annotated, Any, Literal, Self

from fastapi import Request
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    model_validator,
)

from swiftlet.errors import FilterError, InvalidArgumentError, RetrievalError, shown
from swiftlet.index.columns.filters import Every, Filter, parse_filter

Right = Literal["search", "write", "admin"]

MOST_KEYS = 100_000
"""Keys of one file, which is read on a thread of its own: 10,000 in 0.4 s of processor time."""

_SECONDS_BETWEEN_LOOKS = 1.0
_MINUTE = 60.0
_SECRET_BYTES = 32
_ROUNDING = 1e-6
_OWNER_ALONE = 0o600

logger = logging.getLogger(__name__)


class WrongKeyError(RetrievalError):
    """The key of a request does not open its route."""


class BusyKeyError(RetrievalError):
    """A key has asked for as much as it may in a minute."""

    def __init__(self, name: str, most: int, what: str, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(
            f"the key {shown(name)} may ask for {most} {what} a minute; try again in "
            f"{ceil(seconds)} s"
        )


def _parsed_filter(value: object) -> Filter:
    try:
        return parse_filter(value)
    except FilterError as error:
        raise ValueError(f"{error}") from error


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


Count = Annotated[int, Field(ge=1, le=10**15)]


class Key(BaseModel):
    """A line of the file. Without a field, there is no such bound."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    name: Annotated[str, Field(min_length=1, max_length=100)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """Of the key itself, which nothing keeps."""

    rights: Annotated[frozenset[Right], Field(min_length=1)] = frozenset({"search"})
    indexes: frozenset[str] | None = None
    filter: Annotated[Filter | None, PlainValidator(_parsed_filter)] = None
    """Documents that do not pass it do not exist for this key."""

    requests_per_minute: Count | None = None
    bytes_per_minute: Count | None = None
    """Of bodies and answers."""

    expires: Annotated[datetime, AfterValidator(_in_utc)] | None = None
    """From then on it opens nothing."""

    @model_validator(mode="after")
    def _shows_no_more_than_the_filter(self) -> Self:
        if self.filter is not None and self.rights != {"search"}:
            raise ValueError('a key with a filter has the right "search" alone')
        return self


@dataclass(frozen=True, slots=True)
class KeptKey:
    """A key, and what it has used of its limits.

    `due` (2,) has the moments of `monotonic` at which all requests, and all bytes, that it has
    asked for would be allowed at an even pace. The processes of a service share it; two that count
    at the same moment may count one.
    """

    key: Key
    due: Any

    def check(self, right: Right, index: str | None, *, heeds_filter: bool) -> None:
        """Refuse what the key does not open.

        :raises WrongKeyError: When it has expired, or opens another index or other routes.
        """
        key, name = self.key, shown(self.key.name)
        if key.expires is not None and datetime.now(UTC) >= key.expires:
            raise WrongKeyError(f"the key {name} has expired: ask for another one")
        if right not in key.rights:
            raise WrongKeyError(f'the key {name} has no right "{right}"')
        if index is not None and not self.opens(index):
            raise WrongKeyError(f"the key {name} does not open this index")
        if key.filter is not None and not heeds_filter:
            raise WrongKeyError(f"the key {name} has a filter, and this route has none")

    def opens(self, index: str) -> bool:
        """Whether it is for an index of this name."""
        return self.key.indexes is None or index in self.key.indexes

    def take(self) -> None:
        """Count a request.

        :raises BusyKeyError: When the key has asked for as much as it may in a minute.
        """
        key, now = self.key, monotonic()
        if key.bytes_per_minute is not None and self.due[1] - now > _MINUTE:
            raise BusyKeyError(key.name, key.bytes_per_minute, "bytes", self.due[1] - now - _MINUTE)
        if key.requests_per_minute is not None:
            due = max(now, self.due[0]) + _MINUTE / key.requests_per_minute
            if (seconds := due - now - _MINUTE) > _ROUNDING:
                raise BusyKeyError(key.name, key.requests_per_minute, "requests", seconds)
            self.due[0] = due

    def use(self, num_bytes: int) -> None:
        """Count the bytes of a request and of its answer."""
        if self.key.bytes_per_minute is not None:
            seconds = num_bytes * _MINUTE / self.key.bytes_per_minute
            self.due[1] = max(monotonic(), self.due[1]) + seconds


class KeyFile:
    """The keys of a file, which is read again when it has changed. Made before processes fork."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        :raises InvalidArgumentError: When it cannot be read, or a line is wrong; names it.
        """
        self._path = path
        self._due = memoryview(mmap.mmap(-1, 16 * MOST_KEYS)).cast("d")
        self._next_look, self._problem = monotonic() + _SECONDS_BETWEEN_LOOKS, ""
        self._seen, self._keys = (0, 0, 0), dict[bytes, KeptKey]()
        self._read()

    def grants(self, right: Right) -> bool:
        """Whether a key has a right."""
        return any(right in each.key.rights for each in self._keys.values())

    async def find(self, digest: bytes) -> KeptKey | None:
        """The key with this SHA-256, if the file has it."""
        now = monotonic()
        if now > self._next_look:
            self._next_look = now + _SECONDS_BETWEEN_LOOKS
            await asyncio.to_thread(self._look)
        return self._keys.get(digest)

    def _look(self) -> None:
        """Read the file if it has changed; one that is wrong changes nothing."""
        try:
            if self._read():
                self._problem = ""
                logger.info("read %d keys from %s", len(self._keys), self._path)
        except InvalidArgumentError as error:
            if self._problem != f"{error}":
                self._problem = f"{error}"
                logger.error("the keys stay as they were: %s", error)  # noqa: TRY400

    def _read(self) -> bool:
        """Read the file, unless it is as it was."""
        try:
            found = self._path.stat()
            seen = found.st_ino, found.st_size, found.st_mtime_ns
            if seen == self._seen:
                return False
            lines = self._path.read_bytes().splitlines()
        except OSError as error:
            raise InvalidArgumentError(
                f"{self._path} cannot be read: {error.strerror}; swiftlet key makes a file of keys"
            ) from error
        keys = dict[bytes, KeptKey]()
        for number, line in enumerate(lines):
            if not line.strip():
                continue
            try:
                key = Key.model_validate_json(line)
            except ValidationError as error:
                raise InvalidArgumentError(
                    f"{self._path}, line {number + 1}: {_mistake(error)}"
                ) from None
            digest = bytes.fromhex(key.sha256)
            if digest in keys:
                other = shown(keys[digest].key.name)
                raise InvalidArgumentError(
                    f"{self._path}, line {number + 1}: {shown(key.name)} has the key of {other}"
                )
            if len(keys) == MOST_KEYS:
                raise InvalidArgumentError(
                    f"{self._path} has more than {MOST_KEYS:,} keys, which is the most"
                )
            place = 2 * len(keys)
            keys[digest] = KeptKey(key, self._due[place : place + 2])
        self._keys, self._seen = keys, seen
        return True


def add_key(path: Path, name: str, **fields: object) -> str:
    """Make a key, and append it to a file of keys, which may be new; the key.

    :param fields: Of `Key`.
    :raises InvalidArgumentError: When the file is no file of keys, or a field is wrong.
    """
    if path.exists():
        KeyFile(path)
    secret = token_urlsafe(_SECRET_BYTES)
    line: dict[str, object] = {"name": name, "sha256": sha256(secret.encode()).hexdigest()}
    line |= {field: value for field, value in fields.items() if value not in (None, [])}
    written = json.dumps(line, ensure_ascii=False)
    try:
        Key.model_validate_json(written)
    except ValidationError as error:
        raise InvalidArgumentError(_mistake(error)) from None
    is_whole = not path.exists() or path.read_bytes()[-1:] in (b"", b"\n")
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _OWNER_ALONE)
    with FileIO(descriptor, "a") as file:
        file.write(f"{written}\n".encode() if is_whole else f"\n{written}\n".encode())
    return secret


def heeding(request: Request, chosen: Filter | None) -> Filter | None:
    """A filter together with the one of the request's key."""
    key: KeptKey | None = request.state.context.key
    if key is None or key.key.filter is None:
        return chosen
    return key.key.filter if chosen is None else Every((key.key.filter, chosen))


def _mistake(error: ValidationError) -> str:
    mistake = error.errors()[0]
    place = ".".join(map(str, mistake["loc"]))
    sentence = mistake["msg"].removeprefix("Value error, ")
    return f"{place}: {sentence}" if place else sentence
