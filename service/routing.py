"""From a request to its route."""

from collections.abc import Awaitable, Callable, Iterable

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Scope

from service.problems import MethodNotAllowedError, UnknownRouteError

Endpoint = Callable[[Request], Awaitable[Response]]


class RouteTable:
    """The routes of an application; one without parameters is found at once.

    FastAPI's own way from a request to an endpoint leads through middleware, exit stacks and
    dependencies that nothing here has.
    """

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._routes = [
            (route, route.methods or set()) for route in routes if isinstance(route, APIRoute)
        ]
        self._of_path = {
            (method, route.path): route
            for route, methods in self._routes
            if not route.param_convertors
            for method in methods
        }

    def find(self, scope: Scope) -> Endpoint:
        """The endpoint for the request of `scope`, in which its route and parameters are noted.

        :raises UnknownRouteError: When no route has its path.
        :raises MethodNotAllowedError: When the routes of its path take other methods.
        """
        method, path = scope["method"], scope["path"]
        route = self._of_path.get((method, path))
        if route is None:
            route = self._find_by_pattern(scope, method, path)
        scope["route"] = route
        return route.endpoint

    def _find_by_pattern(self, scope: Scope, method: str, path: str) -> APIRoute:
        allowed: set[str] = set()
        for route, methods in self._routes:
            if match := route.path_regex.fullmatch(path):
                if method in methods:
                    scope["path_params"] = match.groupdict()
                    return route
                scope["route"] = route
                allowed |= methods
        if allowed:
            raise MethodNotAllowedError(method, sorted(allowed))
        raise UnknownRouteError("no route has this path; /docs lists the routes")
