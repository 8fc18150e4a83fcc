"""Problems and headers for FastAPI's OpenAPI document."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service.wire.problems import (
    MEDIA_TYPE,
    PROBLEMS,
    BodyTimeoutError,
    InternalError,
    MalformedBodyError,
    NotReadyError,
    Problem,
    TooLargeError,
)

_HEADERS = {
    "X-Request-Id": "The id of this request in the log; the client's own, if it sent one.",
    "Server-Timing": "Milliseconds of each stage.",
    "Connection": "The connection is closed after this answer.",
    "Retry-After": "Seconds until the next try.",
    "WWW-Authenticate": "How to send the key.",
}
_ON_EVERY_ANSWER = ("X-Request-Id", "Server-Timing")

Responses = dict[int | str, dict[str, Any]]


def problems(*errors: type[Exception], body: bool = False, ready: bool = True) -> Responses:
    """The `responses` of a route that may end in `errors`; several may share a status.

    :param body: Whether the route reads a body, which may be bad.
    :param ready: Whether the route answers only while the service is ready.
    """
    of_body = (MalformedBodyError, BodyTimeoutError, TooLargeError) if body else ()
    of_state = (NotReadyError,) if ready else ()
    responses: Responses = {}
    for error in (*of_body, *errors, *of_state, InternalError):
        kind = PROBLEMS[error]
        response = responses.setdefault(
            kind.status,
            {
                "description": "",
                "headers": _references("headers", kind.headers),
                "content": {MEDIA_TYPE: {"schema": _reference("schemas", Problem.__name__)}},
            },
        )
        response["description"] += ("; or: " if response["description"] else "") + kind.title
    return responses


def openapi_of(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """The function that makes the document of `app`, once."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
            )
            components = document["components"]
            components["schemas"][Problem.__name__] = Problem.model_json_schema()
            components["headers"] = {
                name: {"description": description, "required": True, "schema": {"type": "string"}}
                for name, description in _HEADERS.items()
            }
            # FastAPI's own answer to a bad request, which `problems` replaces.
            for name in ("HTTPValidationError", "ValidationError"):
                components["schemas"].pop(name, None)
            for path in document["paths"].values():
                for operation in path.values():
                    if "HTTPValidationError" in str(operation["responses"].get("422")):
                        del operation["responses"]["422"]
                    for response in operation["responses"].values():
                        response.setdefault("headers", {}).update(
                            _references("headers", _ON_EVERY_ANSWER)
                        )
            app.openapi_schema = document
        return app.openapi_schema

    return openapi


def _references(kind: str, names: Any) -> dict[str, Any]:
    return {name: _reference(kind, name) for name in names}


def _reference(kind: str, name: str) -> dict[str, str]:
    return {"$ref": f"#/components/{kind}/{name}"}
