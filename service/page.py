"""The search page at /: a few small files, read once, that need no build and no other host."""

import hashlib
from collections.abc import Awaitable, Callable
from importlib.resources import files

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from service.metrics import CLIENT_LEFT, Metrics

PAGE_FILES = {
    "/": ("index.html", "text/html"),
    "/page/style.css": ("style.css", "text/css"),
    "/page/page.js": ("page.js", "text/javascript"),
    "/page/drawing.js": ("drawing.js", "text/javascript"),
    "/page/service.js": ("service.js", "text/javascript"),
}
"""Each path of the page: its file in `service/page`, and its media type."""

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
"""Documents are anybody's text: should one ever become markup, it can still do nothing."""

_STATUSES = [200, 304, 405, CLIENT_LEFT]
_ETAG_CHARACTERS = 32


def add_page(app: FastAPI, metrics: Metrics) -> None:
    """Serve the search page, which is no part of the contract, and count its requests."""
    for path, (name, media_type) in PAGE_FILES.items():
        app.add_api_route(
            path,
            _endpoint(files("service").joinpath("page", name).read_bytes(), media_type),
            methods=["GET", "HEAD"],
            response_model=None,
            include_in_schema=False,
        )
        metrics.expect(path, _STATUSES)


def _endpoint(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    etag = f'"{hashlib.sha256(content).hexdigest()[:_ETAG_CHARACTERS]}"'
    headers = {
        "ETag": etag,
        # Kept, but asked after at each use, so that no page of an old version meets a new one.
        "Cache-Control": "no-cache",
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    }

    async def page(request: Request) -> Response:
        if _names(request.headers.get("if-none-match", ""), etag):
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=media_type)

    return page


def _names(if_none_match: str, etag: str) -> bool:
    # Compared weakly, as RFC 9110 asks: a proxy that compresses turns "x" into W/"x".
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return etag in tags or tags == ["*"]
