"""From the bytes of a request to a checked model, or one sentence that says what is wrong."""

import json
from typing import Any, Generic, NoReturn
from urllib.parse import parse_qsl

from pydantic import ValidationError
from pydantic_core import ErrorDetails, from_json
from starlette.requests import ClientDisconnect, Request

from service.problems import (
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
        self._limits = limits

    async def from_body(self, request: Request, *, empty: bytes = b"") -> RequestModel:
        """The request in a JSON body, whatever its Content-Type says; `empty` stands for no body.

        :raises TooLargeError: When the body is over the limit; it is not read to its end.
        :raises MalformedBodyError: When the body is not JSON.
        :raises InvalidRequestError: When a field is unknown or outside its bounds.
        """
        body = await _read(request, self._limits.max_body_bytes)
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
        try:
            return self.model.model_validate(fields)
        except ValidationError as error:
            # The first is enough to go on with, and a body can hold a million mistakes.
            self._refuse(error.errors(include_url=False)[0])

    def _refuse(self, mistake: ErrorDetails) -> NoReturn:
        if mistake["type"] == "string_unicode" and not mistake["loc"]:
            raise InvalidRequestError("", "a field's name holds half of a surrogate pair")
        if not mistake["loc"]:
            raise InvalidRequestError("", "the body is not a JSON object")
        name, *position = mistake["loc"]
        field = f"{name}[{position[0]}]" if position else str(name)
        if mistake["type"] == "extra_forbidden":
            known = ", ".join(self.model.model_fields) or "none"
            raise InvalidRequestError(
                _shown(field), f"there is no field {_shown(field)}; the fields are {known}"
            )
        if mistake["type"] == "unsearchable":
            raise InvalidRequestError(field, f"{field}: {mistake['msg']}")
        schema = self.schema["properties"][name]
        expected = (schema["items"] if position else schema)["description"]
        sentence = f"{field} {_what_is_wrong(mistake)}; {expected} is expected"
        if mistake["type"] == "too_long":
            raise TooManyQueriesError(sentence)
        raise InvalidRequestError(field, sentence)


async def _read(request: Request, max_bytes: int) -> bytearray:
    sentence = f"the body has more than {max_bytes} bytes, which is the limit"
    if int(request.headers.get("content-length", 0)) > max_bytes:
        raise TooLargeError(sentence)
    body = bytearray()
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > max_bytes:
            raise TooLargeError(sentence)
        if not message.get("more_body", False):
            return body


def _parse(body: bytearray) -> Any:
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        # The fast parser takes half of a surrogate pair for bad JSON. It is JSON with a bad value,
        # and the client is to learn which field has it.
        if b"\\u" in body:
            try:
                return json.loads(body, parse_constant=_refuse_constant)
            except (ValueError, RecursionError):
                pass
        raise MalformedBodyError(f"the body is not JSON: {error}") from None


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
