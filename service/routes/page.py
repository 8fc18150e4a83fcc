"""The search page at /: a few small files, read once, that need no build and no other host."""

import hashlib
from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import PurePath

from fastapi import APIRouter, Request
from starlette.responses import Response

_MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}

_PLACES = {"index.html": "/", "insight.html": "/insight", "judge.html": "/judge"}

PAGE_FILES = {
    _PLACES.get(name, f"/page/{name}"): (name, _MEDIA_TYPES[PurePath(name).suffix])
    for name in sorted(file.name for file in files("service").joinpath("page").iterdir())
}
"""Each path of the page: its file in `service/page`, and its media type."""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Even if a document's text became markup, it could not run a script."""

_NOT_MODIFIED = 304
_ETAG_CHARACTERS = 32


def page_router() -> APIRouter:
    """The routes of the search page, which are no part of the contract."""
    router = APIRouter()
    for path, (name, media_type) in PAGE_FILES.items():
        content = files("service").joinpath("page", name).read_bytes()
        router.add_api_route(
            path,
            _endpoint(content, media_type),
            response_model=None,
            responses={_NOT_MODIFIED: {}},
            include_in_schema=False,
        )
    return router


def _endpoint(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    etag = f'"{hashlib.sha256(content).hexdigest()[:_ETAG_CHARACTERS]}"'
    headers = {
        "ETag": etag,
        # Browsers check the files at each use, so an old page is never used with a new service.
        "Cache-Control": "no-cache",
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    }

    async def page(request: Request) -> Response:
        if _matches(request.headers.get("if-none-match", ""), etag):
            return Response(status_code=_NOT_MODIFIED, headers=headers)
        return Response(content, headers=headers, media_type=media_type)

    return page


def _matches(if_none_match: str, etag: str) -> bool:
    # Compared weakly, as RFC 9110 requires: a proxy that compresses turns "x" into W/"x".
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return etag in tags or tags == ["*"]
