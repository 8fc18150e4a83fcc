"""The contract as a document: every route with its request, its answer and its errors."""

from collections.abc import Awaitable, Callable
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
}
_PROBLEM = {"$ref": "#/components/schemas/Problem"}


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
            titles = [
                PROBLEMS[error].title
                for error in self._all_errors
                if PROBLEMS[error].status == status
            ]
            responses[status] = {
                "description": "; or: ".join(titles),
                "content": {MEDIA_TYPE: {"schema": _PROBLEM}},
            }
        responses[200] = {"description": "The answer"}
        if isinstance(self.answer, str):
            responses[200]["content"] = {self.answer: {"schema": {"type": "string"}}}
        else:
            responses[200]["model"] = self.answer
        return responses

    @property
    def request(self) -> dict[str, Any]:
        """The OpenAPI request body and parameters."""
        request: dict[str, Any] = {}
        if self.body is not None:
            content = {"application/json": {"schema": self.body.schema}}
            request["requestBody"] = {"required": True, "content": content}
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
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas["Problem"] = Problem.model_json_schema()
        headers = {
            name: {"description": description, "schema": {"type": "string"}}
            for name, description in _HEADERS.items()
        }
        for path in document["paths"].values():
            for operation in path.values():
                for response in operation["responses"].values():
                    response["headers"] = headers
        app.openapi_schema = document
    return app.openapi_schema
