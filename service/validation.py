"""From a request that Pydantic refuses to one sentence that names the field and its bounds."""

import json
from functools import cache
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel

from service.problems import InvalidRequestError, MalformedBodyError, TooManyQueriesError

_LONGEST_SHOWN = 24
_PLAIN_MISTAKES = {
    "missing": "is missing",
    "string_too_short": "is empty",
    "too_short": "is empty",
    "string_unicode": "holds half of a surrogate pair",
}
_JSON_TYPES: dict[type, str] = {str: "a text", list: "a list", dict: "an object"}


def refusal(request: Request, error: RequestValidationError) -> Exception:
    """One sentence about the first mistake."""
    mistake = error.errors()[0]
    where, *location = mistake["loc"]
    model = _model_of(request.scope["route"], where)
    if mistake["type"] == "string_unicode" and not location:
        return InvalidRequestError("", "a field's name holds half of a surrogate pair")
    if not location:
        if mistake["type"] == "missing":
            return MalformedBodyError("the body is not JSON: it is empty")
        return InvalidRequestError("", "the body is not a JSON object")
    return _refused_field(model, where, mistake, *location)


def _refused_field(
    model: type[BaseModel], where: str, mistake: dict[str, Any], name: str, *position: object
) -> Exception:
    field = f"{name}[{position[0]}]" if position and isinstance(position[0], int) else str(name)
    if mistake["type"] == "extra_forbidden":
        known = ", ".join(model.model_fields) or "none"
        return InvalidRequestError(
            shown(field), f"there is no field {shown(field)}; the fields are {known}"
        )
    if mistake["type"] == "value_error":
        return InvalidRequestError(field, f"{field}: {mistake['ctx']['error']}")
    schema = _properties(model)[name]
    expected = (schema["items"] if field != name else schema)["description"]
    sentence = f"{field} {_what_is_wrong(mistake, where)}; {expected} is expected"
    if mistake["type"] == "too_long":
        return TooManyQueriesError(field, sentence)
    return InvalidRequestError(field, sentence)


@cache
def _properties(model: type[BaseModel]) -> dict[str, Any]:
    properties: dict[str, Any] = model.model_json_schema(mode="serialization")["properties"]
    return properties


def _model_of(route: APIRoute, where: str) -> type[BaseModel]:
    """The request model of a route's body or query string."""
    field = route.body_field if where == "body" else route.dependant.query_params[0]
    assert field is not None  # noqa: S101 - it was validated
    model: type[BaseModel] = field.field_info.annotation  # type: ignore[assignment]
    return model


def _what_is_wrong(mistake: dict[str, Any], where: str) -> str:
    value = mistake["input"]
    if mistake["type"] in _PLAIN_MISTAKES:
        return _PLAIN_MISTAKES[mistake["type"]]
    if mistake["type"] == "string_too_long":
        return f"has {len(value)} characters"
    if mistake["type"] == "too_long":
        return f"has {len(value)} entries"
    if where == "body" and type(value) in _JSON_TYPES:
        return f"is {_JSON_TYPES[type(value)]}"
    return f"is {shown(json.dumps(value))}"


def shown(text: str) -> str:
    """A value from a request, shortened, without halves of surrogate pairs."""
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
