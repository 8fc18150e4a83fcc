"""Reads JSON bodies within their limits, and parses large ones on another thread."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from service.wire.keys import ApiKey
from service.wire.problems import (
    BodyTimeoutError,
    InvalidRequestError,
    MalformedBodyError,
    TooLargeError,
)

SMALL_BODY_BYTES = 65_536
"""A body of at most this size is parsed on the event loop, in at most about 2 ms."""

_CONTENT_TYPE = (b"content-type", b"application/json")

_MOST_VALUES = 4096
"""Values of one search, nested ones included; a batch of the default size has about a hundred."""

MOST_FIELDS = 64
"""Fields of a body, or parameters of a query string: pydantic reports each one that is unknown."""

# One thread: what runs here holds the interpreter lock, so two threads would hold it twice as long.
_beside_loop = ThreadPoolExecutor(1, thread_name_prefix="beside-loop")

Result = TypeVar("Result")


async def beside_loop(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function that would hold up the event loop, on the one thread for all of them."""
    return await asyncio.get_running_loop().run_in_executor(_beside_loop, function, *arguments)


class JsonRoute(APIRoute):
    """A route with a JSON body of any Content-Type, or none, within the limits of the service.

    Requests without the key, or that cannot be answered now, are refused before their parameters
    are parsed and their body is read.
    """

    key: ApiKey | None = None
    """What the route needs, if it needs a key."""

    limit = "max_body_bytes"
    """The limit of the service that the size of the body has, besides that of all bodies."""

    most_values = _MOST_VALUES
    """How many values, objects and lists a large body may hold."""

    remedy = "fewer are expected"
    """What the refusal of a body with more of them says at its end."""

    empty = b""
    """The JSON that replaces an empty body, if the body may be empty."""

    refuses_overload = True

    def check_queue(self) -> None:
        """Refuse a large body that could not be handled soon, before it is parsed."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The function that answers a request, as FastAPI makes it, after these checks."""
        handle, has_body = super().get_route_handler(), self.body_field is not None

        async def check_and_handle(request: Request) -> Response:
            service = request.app.state.service
            if self.key is not None:
                await self.key(request)
            parameters = request.scope["query_string"].count(b"&") + 1
            check_fields(parameters, "query string", "parameters")
            service.check(refuses_overload=self.refuses_overload)
            if has_body:
                limits = service.limits
                max_bytes = min(getattr(limits, self.limit), limits.max_body_bytes)
                body = await _read(request, max_bytes, limits.body_timeout_ms) or self.empty
                if (key := request.state.context.key) is not None:
                    key.use(len(body))
                value, is_small = None, len(body) <= SMALL_BODY_BYTES
                if not is_small:
                    value = await beside_loop(self._parse_large, body)
                await service.turns.take(len(body))
                if body and is_small:
                    value = parse(body)
                if isinstance(value, dict):
                    check_fields(len(value), "body", "fields")
                # FastAPI would take null for an empty body. It reads JSON only from bodies of
                # this type, and takes the first such header.
                request._body, request._json = body, [] if value is None else value  # noqa: SLF001
                request.scope["headers"].insert(0, _CONTENT_TYPE)
            return await handle(request)

        return check_and_handle

    def _parse_large(self, body: bytes) -> Any:
        # Here, since many bodies may come at once: full collections of garbage walk all values
        # that wait, 50 ms for a million lists.
        self.check_queue()
        return parse_large(body, self.most_values, self.remedy)


def json_response(content: bytes, headers: Mapping[str, str] | None = None) -> Response:
    """The answer with this JSON."""
    # FastAPI passes it on: docs/results/smaller.md has the cost of response models.
    return Response(content, media_type="application/json", headers=headers)


async def _read(request: Request, max_bytes: int, timeout_ms: int) -> bytes:
    """All bytes of the body.

    :raises TooLargeError: When it is over the limit; it is not read to its end.
    :raises BodyTimeoutError: When it has not arrived in time.
    """
    body = bytearray()
    # The parser bounds the number, and leaves any number of zeros before it.
    length = request.headers.get("content-length", "").lstrip("0")
    too_large = int(length or 0) > max_bytes
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            while not too_large:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                body += message.get("body", b"")
                too_large = len(body) > max_bytes
                if not message.get("more_body"):
                    break
    except TimeoutError:
        raise BodyTimeoutError(
            f"the body had not come after {timeout_ms} ms, which is the limit"
        ) from None
    if too_large:
        raise TooLargeError(f"the body has more than {max_bytes} bytes, which is the limit")
    return bytes(body)


def parse(body: bytes) -> Any:
    """The value of a JSON text.

    :raises MalformedBodyError: When it is not JSON.
    """
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        # This parser also refuses half of a surrogate pair, and an integer of thousands of digits.
        # Both are JSON with a bad value, and the error must name the field.
        with suppress(ValueError, RecursionError):
            return json.loads(body.decode(), parse_int=_number, parse_constant=_refuse_constant)
        raise MalformedBodyError(f"the body is not JSON: {error}") from None


def parse_large(body: bytes, most_values: int = _MOST_VALUES, remedy: str = "") -> Any:
    """The value of a JSON text; values are counted first, which is much faster than to parse them.

    :raises TooLargeError: When it holds more than `most_values` values, objects and lists.
    """
    # A comma stands before each further value, and a bracket before the first ones. If there are
    # too many with those in texts, texts are left out: without escapes, every other part is one.
    # There is a quote at both ends of keys and of texts, so at most four for each value.
    if _count_signs(body) >= most_values:
        bare = body.replace(rb"\\", b"").replace(b'\\"', b"")
        parts = bare.split(b'"', 4 * most_values)
        if len(parts) > 4 * most_values or _count_signs(b"".join(parts[::2])) >= most_values:
            raise TooLargeError(
                f"the body holds more than {most_values} values, objects and lists; {remedy}"
            )
    return parse(body)


def check_fields(count: int, where: str, name: str) -> None:
    """Refuse more fields than any request has, which is much faster than to name those unknown.

    :raises InvalidRequestError: When there are more than `MOST_FIELDS`.
    """
    if count > MOST_FIELDS:
        raise InvalidRequestError(
            "", f"the {where} has {count} {name}; at most {MOST_FIELDS} are expected"
        )


def _count_signs(text: bytes) -> int:
    return sum(map(text.count, (b",", b"[", b"{")))


def _number(digits: str) -> float:
    try:
        return int(digits)
    except ValueError:  # more digits than Python converts
        return float(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
