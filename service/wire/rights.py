"""The keys of a file: what each opens, which documents it shows, and how much it may ask."""

import asyncio
import json
import logging
import mmap
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
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

from swiftlet import disk
from swiftlet.errors import FilterError, InvalidArgumentError, RetrievalError, shown, shown_json
from swiftlet.index.columns.filters import Every, Filter, conditions, parse_filter

Right = Literal["search", "write", "admin"]

MOST_KEYS = 100_000
"""Keys of one file, which is read on a thread of its own: 10,000 in 0.4 s of processor time."""

_SLOTS = 4 * MOST_KEYS
_SECONDS_BETWEEN_LOOKS = 1.0
_MINUTE = 60.0
_ROUNDING = 1e-6
_SECRET_BYTES = 32
_OWNER_ALONE = 0o600

logger = logging.getLogger(__name__)


class WrongKeyError(RetrievalError):
    """The key of a request does not open its route."""


class BusyKeyError(RetrievalError):
    """A key has asked for as much as it may in a minute; it is to wait for whole `seconds`."""

    def __init__(self, key: "Key", limit: str, seconds: float) -> None:
        self.seconds = ceil(seconds)
        super().__init__(
            f"{limit} of the key {shown(key.name)} is {getattr(key, limit)}: try again in "
            f"{self.seconds} s"
        )


def _parsed_filter(value: object) -> Filter:
    try:
        return parse_filter(value)
    except FilterError as error:
        raise ValueError(f"{error}") from error


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


Name = Annotated[str, Field(min_length=1, max_length=100)]
Count = Annotated[int, Field(ge=1, le=10**15, strict=True)]
_COUNT: Any = Field(None, description="a whole number from 1 to 10**15")


class Key(BaseModel):
    """A line of the file. Without a field, there is no such bound."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    name: Name = Field(description="a text of 1 to 100 characters")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="64 hexadecimal digits")
    """Of the key itself, which nothing keeps."""

    rights: frozenset[Right] = Field(
        frozenset({"search"}), min_length=1, description="a list of search, write and admin"
    )
    indexes: frozenset[Name] | None = Field(None, description="a list of names")
    filter: Annotated[Filter | None, PlainValidator(_parsed_filter)] = None
    """Documents that do not pass it do not exist for this key."""

    requests_per_minute: Count | None = _COUNT
    bytes_per_minute: Count | None = _COUNT
    """Of bodies and answers."""

    expires: Annotated[datetime, AfterValidator(_in_utc)] | None = Field(
        None, description="a date or time such as 2027-01-31"
    )
    """From then on it opens nothing."""

    @model_validator(mode="after")
    def _shows_no_more_than_the_filter(self) -> Self:
        if self.filter is not None and self.rights != {"search"}:
            raise ValueError('a key with a filter has the right "search" alone')
        return self

    @classmethod
    def of(cls, line: bytes) -> Self:
        """The key that a line of JSON describes.

        :raises InvalidArgumentError: When it is none; names the field.
        """
        try:
            return cls.model_validate_json(line)
        except ValidationError as error:
            mistake = error.errors()[0]
        place, sentence = mistake["loc"], mistake["msg"].removeprefix("Value error, ")
        if place and place[0] not in cls.model_fields:
            fields = ", ".join(cls.model_fields)
            sentence = f"{shown(place[0])} is no field of a key; the fields are {fields}"
        elif mistake["type"] == "missing":
            sentence = f"{place[0]} is missing"
        elif place and place[0] != "filter":
            expected = cls.model_fields[str(place[0])].description
            sentence = f"{place[0]} is {shown_json(mistake['input'])}, but {expected} is expected"
        raise InvalidArgumentError(sentence)

    def opens(self, index: str) -> bool:
        """Whether it is for an index of this name."""
        return self.indexes is None or index in self.indexes

    def names(self, path: str) -> bool:
        """Whether its filter has a condition on a field."""
        return self.filter is not None and path in {each.path for each in conditions(self.filter)}

    def check(self, right: Right, index: str | None, *, heeds_filter: bool) -> None:
        """Refuse what the key does not open.

        :raises WrongKeyError: When it has expired, or opens another index or other routes.
        """
        if self.expires is not None and datetime.now(UTC) >= self.expires:
            raise WrongKeyError(f"the key {shown(self.name)} has expired: ask for another one")
        if right not in self.rights:
            raise WrongKeyError(f'the key {shown(self.name)} has no right "{right}"')
        if index is not None and not self.opens(index):
            raise WrongKeyError(f"the key {shown(self.name)} does not open this index")
        if self.filter is not None and not heeds_filter:
            raise WrongKeyError(
                f"the key {shown(self.name)} has a filter, and this route cannot hide documents"
            )


@dataclass(frozen=True, slots=True)
class KeptKey:
    """A key, and what it has used of its limits.

    `used` (2,) has the moments of `monotonic` at which all requests, and all bytes, that it has
    asked for would be allowed at an even pace. The processes of a service share it; two of them
    that count at the same moment may count one.
    """

    key: Key
    used: Any

    def take(self) -> None:
        """Count a request.

        :raises BusyKeyError: When the key has asked for as much as it may in a minute.
        """
        key, now = self.key, monotonic()
        if key.bytes_per_minute is not None and self.used[1] - now > _MINUTE:
            raise BusyKeyError(key, "bytes_per_minute", self.used[1] - now - _MINUTE)
        if key.requests_per_minute is not None:
            used = max(now, self.used[0]) + _MINUTE / key.requests_per_minute
            if (seconds := used - now - _MINUTE) > _ROUNDING:
                raise BusyKeyError(key, "requests_per_minute", seconds)
            self.used[0] = used

    def use(self, num_bytes: int) -> None:
        """Count the bytes of a request and of its answer."""
        if self.key.bytes_per_minute is not None:
            seconds = num_bytes * _MINUTE / self.key.bytes_per_minute
            self.used[1] = max(monotonic(), self.used[1]) + seconds


class _Slots:
    """Memory that processes share: two numbers for each key, wherever it stands in the file."""

    def __init__(self) -> None:
        shared = memoryview(mmap.mmap(-1, 24 * _SLOTS))
        self._owners, self._numbers = shared[: 8 * _SLOTS].cast("Q"), shared[8 * _SLOTS :].cast("d")

    def of(self, digest: bytes) -> Any:
        """The numbers (2,) of a key."""
        owner = int.from_bytes(digest[:8])
        place = owner % _SLOTS
        for _ in range(_SLOTS):  # more than all keys, unless hundreds of thousands have come
            if self._owners[place] in {0, owner}:
                break
            place = (place + 1) % _SLOTS
        self._owners[place] = owner
        return self._numbers[2 * place : 2 * place + 2]


class KeyFile:
    """The keys of a file, which is read again when it has changed. Made before processes fork."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        :raises InvalidArgumentError: When it cannot be read, or a line is wrong; names it.
        """
        self._path, self._slots = path, _Slots()
        self._seen: tuple[int, ...] | None = None
        self._keys = dict[bytes, KeptKey]()
        self._look: asyncio.Future[None] | None = None
        self._read()
        self._next_look = monotonic() + _SECONDS_BETWEEN_LOOKS

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._keys)

    def grants(self, right: Right) -> bool:
        """Whether a key has a right."""
        return any(right in each.key.rights for each in self._keys.values())

    async def find(self, digest: bytes) -> KeptKey | None:
        """The key with this SHA-256, if the file has it."""
        if self._look is None and monotonic() > self._next_look:
            self._look = asyncio.ensure_future(asyncio.to_thread(self._read_again))
        if (look := self._look) is not None:  # a key that was taken away opens nothing any more
            try:
                await asyncio.shield(look)
            finally:
                self._look, self._next_look = None, monotonic() + _SECONDS_BETWEEN_LOOKS
        return self._keys.get(digest)

    def _read_again(self) -> None:
        """Read the file if it has changed; one that is wrong changes nothing."""
        try:
            if self._read():
                logger.info("read %d keys from %s", len(self._keys), self._path)
        except InvalidArgumentError as error:
            logger.error("the keys stay as they were: %s", error)  # noqa: TRY400

    def _read(self) -> bool:
        """Read the file, unless it is as it was at the last look."""
        try:
            found = self._path.stat() if self._path.is_file() else None
            seen = () if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)
            if seen == self._seen:
                return False
            self._seen = seen
            lines = [] if found is None else self._path.read_bytes().splitlines()
        except OSError as error:
            raise InvalidArgumentError(f"{self._path} cannot be read: {error.strerror}") from error
        if found is None:
            raise InvalidArgumentError(f"{self._path} is no file of keys: swiftlet key makes one")
        keys = dict[bytes, KeptKey]()
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    self._add(Key.of(line), keys)
                except InvalidArgumentError as error:
                    raise InvalidArgumentError(f"{self._path}, line {number}: {error}") from None
        self._keys = keys
        return True

    def _add(self, key: Key, keys: dict[bytes, KeptKey]) -> None:
        digest = bytes.fromhex(key.sha256)
        if digest in keys:
            other = shown(keys[digest].key.name)
            raise InvalidArgumentError(f"{shown(key.name)} has the same sha256 as {other}")
        if len(keys) == MOST_KEYS:
            raise InvalidArgumentError(f"this is one key more than {MOST_KEYS:,}, the most")
        keys[digest] = KeptKey(key, self._slots.of(digest))


def add_key(path: Path, name: str, **fields: object) -> str:
    """Make a key, and append it to a file of keys, which may be new; the key.

    :param fields: Of `Key`.
    :raises InvalidArgumentError: When the file is no file of keys, or a field is wrong.
    """
    if path.exists() and len(KeyFile(path)) == MOST_KEYS:
        raise InvalidArgumentError(f"{path} has {MOST_KEYS:,} keys, the most: take others out")
    secret = token_urlsafe(_SECRET_BYTES)
    line: dict[str, object] = {"name": name, "sha256": sha256(secret.encode()).hexdigest()}
    line |= {field: value for field, value in fields.items() if value not in (None, [])}
    written = json.dumps(line).encode()
    key = Key.of(written)
    if key.expires is not None and key.expires <= datetime.now(UTC):
        raise InvalidArgumentError(f"expires is {fields['expires']}, which has passed")
    disk.append_lines(path, written + b"\n", mode=_OWNER_ALONE)
    return secret


def heeding(request: Request, chosen: Filter | None) -> Filter | None:
    """A filter together with the one of the request's key."""
    key: KeptKey | None = request.state.context.key
    if key is None or key.key.filter is None:
        return chosen
    return key.key.filter if chosen is None else Every((key.key.filter, chosen))
