"""From the bytes of a request to a checked model, or one sentence that says what is wrong."""

import asyncio
import json
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Generic, NoReturn, cast
from urllib.parse import parse_qsl

from pydantic import ValidationError
from pydantic_core import ErrorDetails, from_json
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from service.problems import (
    BodyTimeoutError,
    InvalidRequestError,
    MalformedBodyError,
    TooLargeError,
    TooManyQueriesError,
)
from service.schemas import Limits, RequestModel, bounded

_LONGEST_SHOWN = 24
_JSON_TYPES: dict[type, str] = {str: "a text", list: "a list", dict: "an object"}
_PLAIN_MISTAKES = {
    "missing": "is missing",
    "string_too_short": "is empty",
    "too_short": "is empty",
    "string_unicode": "holds half of a surrogate pair",
}


class RequestReader(Generic[RequestModel]):
    """Reads requests of one kind within `limits`."""

    def __init__(self, model: type[RequestModel], limits: Limits) -> None:
        self.model = bounded(model, limits)
        self.schema: dict[str, Any] = self.model.model_json_schema()
        # Of fields as they are checked: a text that may stand for a list of one is a list by then.
        self._checked: dict[str, Any] = self.model.model_json_schema(mode="serialization")
        self._limits = limits

    async def from_body(self, request: Request, *, empty: bytes = b"") -> RequestModel:
        """The request in a JSON body, whatever its Content-Type says; `empty` stands for no body.

        :raises TooLargeError: When the body is over the limit; it is not read to its end.
        :raises BodyTimeoutError: When the body has not come in time.
        :raises MalformedBodyError: When the body is not JSON.
        :raises InvalidRequestError: When a field is unknown or outside its bounds.
        """
        body = await _read(request, self._limits)
        return self._validate(_parse(body or bytearray(empty)))

    def from_query_string(self, request: Request) -> RequestModel:
        """The request in a query string, its numbers and truth values written as in JSON.

        :raises InvalidRequestError: When a field is unknown, repeated or outside its bounds.
        """
        try:
            pairs = parse_qsl(
                request.scope["query_string"].decode(), keep_blank_values=True, errors="strict"
            )
        except ValueError:
            raise InvalidRequestError("", "the query string is not valid UTF-8") from None
        fields: dict[str, Any] = {}
        for name, text in pairs:
            if name in fields:
                raise InvalidRequestError(name, f"{_shown(name)} is given more than once")
            fields[name] = text
            if (
                name in self.model.model_fields
                and self.schema["properties"][name]["type"] != "string"
            ):
                fields[name] = _parse_value(text)
        return self._validate(fields)

    def _validate(self, fields: Any) -> RequestModel:
        known = self.schema["properties"]
        # Where some must be unknown, one is looked for: to list a million would take seconds, in
        # which nobody else is answered.
        if isinstance(fields, dict) and len(fields) > len(known):
            self._refuse_unknown(next(name for name in fields if name not in known))
        try:
            return self.model.model_validate(fields)
        except ValidationError as error:
            # The first is enough to go on with.
            self._refuse(error.errors(include_url=False)[0])

    def _refuse(self, mistake: ErrorDetails) -> NoReturn:
        if mistake["type"] == "string_unicode" and not mistake["loc"]:
            raise InvalidRequestError("", "a field's name holds half of a surrogate pair")
        if not mistake["loc"]:
            raise InvalidRequestError("", "the body is not a JSON object")
        name, *position = mistake["loc"]
        field = f"{name}[{position[0]}]" if position else str(name)
        if mistake["type"] == "extra_forbidden":
            self._refuse_unknown(field)
        if mistake["type"] == "unsearchable":
            raise InvalidRequestError(field, f"{field}: {mistake['msg']}")
        schema = self._checked["properties"][name]
        expected = (schema["items"] if position else schema)["description"]
        sentence = f"{field} {_what_is_wrong(mistake)}; {expected} is expected"
        if mistake["type"] == "too_long":
            raise TooManyQueriesError(field, sentence)
        raise InvalidRequestError(field, sentence)

    def _refuse_unknown(self, field: str) -> NoReturn:
        known = ", ".join(self.schema["properties"]) or "none"
        raise InvalidRequestError(
            _shown(field), f"there is no field {_shown(field)}; the fields are {known}"
        )


async def _read(request: Request, limits: Limits) -> bytearray:
    if int(request.headers.get("content-length", 0)) > limits.max_body_bytes:
        raise _too_large(limits)
    body = bytearray()
    if _add(_at_hand(request.receive), body, limits):
        return body
    try:
        async with asyncio.timeout(limits.body_timeout_ms / 1000):
            while not _add(await request.receive(), body, limits):
                pass
    except TimeoutError:
        raise BodyTimeoutError(
            f"the body had not come after {limits.body_timeout_ms} ms, which is the limit"
        ) from None
    return body


def _at_hand(receive: Receive) -> Message:
    """What has come already: most often all of the body, for which a timeout costs too much."""
    coming = cast("Coroutine[object, None, Message]", receive())
    try:
        coming.send(None)
    except StopIteration as come:
        return cast("Message", come.value)
    coming.close()  # it would wait; whoever asks again misses nothing
    return {"type": "http.request", "more_body": True}


def _add(message: Message, body: bytearray, limits: Limits) -> bool:
    """Add what has come to `body`; whether that was the end of it."""
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    body += message.get("body", b"")
    if len(body) > limits.max_body_bytes:
        raise _too_large(limits)
    return not message.get("more_body", False)


def _too_large(limits: Limits) -> TooLargeError:
    return TooLargeError(
        f"the body has more than {limits.max_body_bytes} bytes, which is the limit"
    )


def _parse(body: bytearray) -> Any:
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        # The fast parser takes half of a surrogate pair, and an integer of thousands of digits, for
        # bad JSON. It is JSON with a bad value, and the client is to learn which field has it.
        with suppress(ValueError, RecursionError):
            return json.loads(body.decode(), parse_int=_number, parse_constant=_refuse_constant)
        raise MalformedBodyError(f"the body is not JSON: {error}") from None


def _number(digits: str) -> float:
    try:
        return int(digits)
    except ValueError:  # more digits than Python converts
        return float(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _parse_value(text: str) -> Any:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return text


def _what_is_wrong(mistake: ErrorDetails) -> str:
    value = mistake["input"]
    if mistake["type"] in _PLAIN_MISTAKES:
        return _PLAIN_MISTAKES[mistake["type"]]
    if mistake["type"] == "string_too_long":
        return f"has {len(value)} characters"
    if mistake["type"] == "too_long":
        return f"has {len(value)} entries"
    if type(value) in _JSON_TYPES:
        return f"is {_JSON_TYPES[type(value)]}"
    return f"is {_shown(json.dumps(value))}"


def _shown(text: str) -> str:
    """A client's own words, short and fit for a JSON answer."""
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
