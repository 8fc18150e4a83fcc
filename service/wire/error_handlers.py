"""Answers every error as a problem."""

from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from service.wire.problems import (
    PROBLEMS,
    InternalError,
    MethodNotAllowedError,
    UnknownRouteError,
    kind_of,
    problem_response,
)
from service.wire.validation import refusal
from swiftlet.errors import RetrievalError


def add_problem_handlers(app: FastAPI) -> None:
    """Answer every error of `app` with a problem."""
    for error in (RetrievalError, HTTPException, RequestValidationError):
        app.add_exception_handler(error, _answer_error)


async def _answer_error(request: Request, error: Exception) -> Response:
    if isinstance(error, RequestValidationError):
        error = refusal(request, error)
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
    path = request.scope["path"]
    routes = [*iter_route_contexts(request.app.routes)]
    # A path of its own, such as /documents/delete, comes before those with an id in their place.
    found = [route for route in routes if route.path_format == path]
    found = found or [route for route in routes if route.path_regex.match(path)]
    return sorted({method for route in found for method in _with_head(route.methods or set())})


def _with_head(methods: set[str]) -> set[str]:
    return methods | {"HEAD"} if "GET" in methods else methods
