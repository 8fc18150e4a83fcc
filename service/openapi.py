"""The contract as a document: every route with its request, its answer, its errors and its key."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from service.keys import KeyLock
from service.problems import (
    MEDIA_TYPE,
    PROBLEMS,
    InternalError,
    MissingKeyError,
    WrongKeyError,
)
from service.reading import RequestReader
from service.schemas import Problem

Endpoint = Callable[[Request], Awaitable[Response]]

_HEADERS = {
    "X-Request-Id": "The id of this request in the log; the client's own, if it sent one.",
    "Server-Timing": "Milliseconds of each stage.",
    "Connection": "Says that the connection is closed after this answer.",
    "Retry-After": "Seconds after which to ask again.",
    "WWW-Authenticate": "How the key is to be sent.",
}
_ON_EVERY_ANSWER = ("X-Request-Id", "Server-Timing")
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one route: what it takes, answers with, and may end in."""

    method: str
    path: str
    endpoint: Endpoint
    answer: type[BaseModel] | str
    errors: tuple[type[Exception], ...] = ()
    body: RequestReader[Any] | None = None
    query_string: RequestReader[Any] | None = None
    path_parameter: str = ""
    lock: KeyLock | None = None

    @property
    def name(self) -> str:
        """The operation's id."""
        return self.endpoint.__name__

    @property
    def label(self) -> str:
        """The route as metrics and logs name it."""
        return self.path.replace(":path}", "}")

    @property
    def statuses(self) -> list[int]:
        """Every status that the operation can end in."""
        return [200, *sorted({PROBLEMS[error].status for error in self._all_errors})]

    @property
    def responses(self) -> dict[int | str, dict[str, Any]]:
        """The OpenAPI responses; several errors may share a status."""
        responses: dict[int | str, dict[str, Any]] = {}
        for status in self.statuses[1:]:
            kinds = [
                PROBLEMS[error] for error in self._all_errors if PROBLEMS[error].status == status
            ]
            responses[status] = {
                "description": "; or: ".join(kind.title for kind in kinds),
                "headers": _headers([*_ON_EVERY_ANSWER, *kinds[0].headers]),
                "content": {MEDIA_TYPE: {"schema": _reference("schemas", Problem.__name__)}},
            }
        responses[200] = {"description": "The answer", "headers": _headers(_ON_EVERY_ANSWER)}
        if isinstance(self.answer, str):
            schema = {"type": "object" if self.answer == _JSON else "string"}
            responses[200]["content"] = {self.answer: {"schema": schema}}
        else:
            responses[200]["model"] = self.answer
        return responses

    @property
    def request(self) -> dict[str, Any]:
        """The OpenAPI request body and parameters, and what opens the lock."""
        request: dict[str, Any] = {}
        if self.lock is not None:
            request["security"] = [{self.lock.variable: []}]
        if self.body is not None:
            schema = self.body.schema
            request["requestBody"] = {
                "required": "required" in schema,
                "content": {_JSON: {"schema": schema}},
            }
        parameters = []
        if self.query_string is not None:
            schema = self.query_string.schema
            parameters += [
                {
                    "name": name,
                    "in": "query",
                    "required": name in schema["required"],
                    "schema": field,
                }
                for name, field in schema["properties"].items()
            ]
        if self.path_parameter:
            parameters.append(
                {
                    "name": self.path_parameter,
                    "in": "path",
                    "required": True,
                    "schema": {"type": "string"},
                }
            )
        if parameters:
            request["parameters"] = parameters
        return request

    @property
    def _all_errors(self) -> tuple[type[Exception], ...]:
        of_lock = () if self.lock is None else (MissingKeyError, WrongKeyError)
        return (*of_lock, *self.errors, InternalError)

    @property
    def guarded(self) -> Endpoint:
        """The endpoint behind its lock."""
        lock, endpoint = self.lock, self.endpoint
        if lock is None:
            return endpoint

        async def guarded(request: Request) -> Response:
            lock.check(request)
            return await endpoint(request)

        return update_wrapper(guarded, endpoint)


def add_operation(app: FastAPI, operation: Operation) -> None:
    """Serve an operation and put it into the document; what is got can be asked for with HEAD."""
    endpoint = operation.guarded
    app.add_api_route(
        operation.path,
        endpoint,
        methods=[operation.method],
        operation_id=operation.name,
        response_model=None,
        responses=operation.responses,
        response_class=Response,
        openapi_extra=operation.request,
    )
    if operation.method == "GET":
        app.add_api_route(operation.path, endpoint, methods=["HEAD"], include_in_schema=False)


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of `app`."""
    if app.openapi_schema is None:
        document = app.openapi()
        components = document.setdefault("components", {})
        components["headers"] = {
            name: {"description": description, "required": True, "schema": {"type": "string"}}
            for name, description in _HEADERS.items()
        }
        schemas = components.setdefault("schemas", {})
        schemas[Problem.__name__] = Problem.model_json_schema()
        for operation in _operations(document):
            for variable in _variables(operation):
                components.setdefault("securitySchemes", {})[variable] = {
                    "type": "http",
                    "scheme": "bearer",
                    "description": f"One of the keys that {variable} holds.",
                }
            if "requestBody" in operation:
                # By name, as generators call the class that they make of it.
                content = operation["requestBody"]["content"][_JSON]
                name = content["schema"]["title"]
                schemas[name] = content["schema"]
                content["schema"] = _reference("schemas", name)
        app.openapi_schema = document
    return app.openapi_schema


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document["paths"].values():
        yield from path.values()


def _variables(operation: dict[str, Any]) -> Iterator[str]:
    for requirement in operation.get("security", []):
        yield from requirement


def _headers(names: Iterable[str]) -> dict[str, Any]:
    return {name: _reference("headers", name) for name in names}


def _reference(kind: str, name: str) -> dict[str, str]:
    return {"$ref": f"#/components/{kind}/{name}"}
