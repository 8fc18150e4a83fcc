"""From an error of a route, or of FastAPI, to the problem that answers the request."""

import json
from functools import cache
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from service.wire.problems import (
    PROBLEMS,
    InternalError,
    InvalidRequestError,
    MalformedBodyError,
    MethodNotAllowedError,
    TooManyQueriesError,
    UnknownRouteError,
    kind_of,
    problem_response,
)
from swiftlet.errors import FilterError, RetrievalError

_LONGEST_SHOWN = 24
_PLAIN_MISTAKES = {
    "missing": "is missing",
    "string_too_short": "is empty",
    "too_short": "is empty",
    "string_unicode": "holds half of a surrogate pair",
}
_OF_OTHER_TEXTS = {"literal_error", "string_pattern_mismatch"}
_JSON_TYPES: dict[type, str] = {str: "a text", list: "a list", dict: "an object"}


def add_problem_handlers(app: FastAPI) -> None:
    """Answer every error of `app` with a problem."""
    for error in (RetrievalError, HTTPException, RequestValidationError):
        app.add_exception_handler(error, _answer_error)


async def _answer_error(request: Request, error: Exception) -> Response:
    if isinstance(error, RequestValidationError):
        error = _refusal(request, error)
    elif isinstance(error, HTTPException):
        error = _cause_of(request, error)
    if kind_of(error) is PROBLEMS[InternalError]:
        raise error  # the middleware logs and answers it
    response = problem_response(error, request.state.context)
    if isinstance(error, MethodNotAllowedError):
        response.headers["Allow"] = ", ".join(_allowed_methods(request))
    return response


def _cause_of(request: Request, error: HTTPException) -> Exception:
    """The error that an exception of FastAPI's stands for; one of a route stands for itself."""
    if isinstance(error.__cause__, ClientDisconnect):
        return error.__cause__
    if error.detail != HTTPStatus(error.status_code).phrase:
        return error
    if error.status_code == 404:
        return UnknownRouteError("no route has this path; /docs lists the routes")
    if error.status_code == 405:
        allowed = " or ".join(_allowed_methods(request))
        return MethodNotAllowedError(f"the method is {request.method}; {allowed} is expected")
    return error


def _allowed_methods(request: Request) -> list[str]:
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    routes = [*iter_route_contexts(request.app.routes)]
    # A path of its own, such as /documents/delete, comes before those with an id in their place.
    found = [route for route in routes if route.path_format == path]
    found = found or [route for route in routes if route.path_regex.match(path)]
    return sorted({method for route in found for method in _with_head(route.methods or set())})


def _with_head(methods: set[str]) -> set[str]:
    return methods | {"HEAD"} if "GET" in methods else methods


def _refusal(request: Request, error: RequestValidationError) -> Exception:
    """One sentence about the first mistake."""
    mistake = error.errors()[0]
    where, *location = mistake["loc"]
    if mistake["type"] == "json_invalid":  # of a route that reads its body as FastAPI does
        return MalformedBodyError(f"the body is not JSON: {mistake['ctx']['error']}")
    if mistake["type"] == "string_unicode" and not location:
        return InvalidRequestError("", "a field's name holds half of a surrogate pair")
    if not location:
        if mistake["type"] == "missing":
            return MalformedBodyError("the body is not JSON: it is empty")
        return InvalidRequestError("", "the body is not a JSON object")
    return _refused_field(_model_of(request.scope["route"], where), where, mistake, *location)


def _refused_field(
    model: type[BaseModel] | None, where: str, mistake: dict[str, Any], *location: Any
) -> Exception:
    name, *position = location
    is_item = bool(position) and isinstance(position[0], int)
    inner = f"[{position[0]}]" if is_item else "".join(f".{each}" for each in position[:1])
    field = f"{name}{inner}"
    if mistake["type"] == "extra_forbidden" and model is not None:
        known = ", ".join(model.model_fields) or "none"
        return InvalidRequestError(
            shown(field), f"there is no field {shown(field)}; the fields are {known}"
        )
    if mistake["type"] == "value_error":
        error = mistake["ctx"]["error"]
        if isinstance(error, FilterError):
            return error
        return InvalidRequestError(field, f"{field}: {error}")
    schema = {} if model is None else _properties(model).get(name, {})
    expected = (schema.get("items", schema) if is_item else schema).get("description")
    if expected is None:  # not one of the service's own fields
        field = shown(".".join(map(str, location)))
        return InvalidRequestError(field, f"{field}: {mistake['msg']}")
    sentence = f"{field} {_what_is_wrong(mistake, where)}; {expected} is expected"
    if mistake["type"] == "too_long":
        return TooManyQueriesError(field, sentence)
    return InvalidRequestError(field, sentence)


@cache
def _properties(model: type[BaseModel]) -> dict[str, Any]:
    properties: dict[str, Any] = model.model_json_schema(mode="serialization")["properties"]
    return properties


def _model_of(route: APIRoute, where: str) -> type[BaseModel] | None:
    """The request model of a route's body or query string, if it has one."""
    query = route.dependant.query_params
    field = {"body": route.body_field, "query": query[0] if query else None}.get(where)
    model = None if field is None else field.field_info.annotation
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def _what_is_wrong(mistake: dict[str, Any], where: str) -> str:
    value = mistake["input"]
    if mistake["type"] in _PLAIN_MISTAKES:
        return _PLAIN_MISTAKES[mistake["type"]]
    if mistake["type"] == "string_too_long":
        return f"has {len(value)} characters"
    if mistake["type"] == "too_long":
        return f"has {len(value)} entries"
    is_another_text = mistake["type"] in _OF_OTHER_TEXTS and isinstance(value, str)
    if where == "body" and type(value) in _JSON_TYPES and not is_another_text:
        return f"is {_JSON_TYPES[type(value)]}"
    return f"is {shown(json.dumps(value))}"


def shown(text: str) -> str:
    """A value from a request, shortened, without halves of surrogate pairs."""
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
