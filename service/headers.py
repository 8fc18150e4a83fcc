"""Headers that tell browsers what they may do with an answer."""

from collections.abc import Collection

from starlette.types import Scope

Headers = list[tuple[bytes, bytes]]

_CONTENT_SECURITY_POLICY = (
    b"content-security-policy",
    b"default-src 'none'; frame-ancestors 'none'",
)
_SECURITY: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
]
_PREFLIGHT = {
    "access-control-allow-methods": "GET, HEAD, POST",
    "access-control-allow-headers": "authorization, content-type, traceparent, x-request-id",
    "access-control-max-age": "600",
}
_EXPOSED = (b"access-control-expose-headers", b"retry-after, server-timing, x-request-id")
_ANY = "*"


def security_headers(headers: Headers) -> Headers:
    """What is to be added to the `headers` of an answer; a page's own policy is kept."""
    if any(name == b"content-security-policy" for name, _ in headers):
        return _SECURITY
    return [*_SECURITY, _CONTENT_SECURITY_POLICY]


class CrossOrigin:
    """Which pages of other origins may ask, after the CORS protocol; `*` stands for all.

    No answer says that credentials may be sent along: keys stand in a header of their own.
    """

    def __init__(self, origins: Collection[str]) -> None:
        self._origins = {origin.encode() for origin in origins}
        self._any = _ANY in origins

    def headers(self, scope: Scope) -> Headers:
        """What the answer to the request of `scope` says to the browser of its page."""
        origin = _header(scope, b"origin")
        if self._any:
            return [(b"access-control-allow-origin", b"*"), _EXPOSED]
        # Even to others, so that no cache between gives one origin the answer of another.
        varies = (b"vary", b"Origin")
        if origin not in self._origins:
            return [varies]
        return [(b"access-control-allow-origin", origin), _EXPOSED, varies]

    @staticmethod
    def preflight(scope: Scope) -> dict[str, str]:
        """The further headers of the answer, if a browser asks what a page might ask; else none."""
        asks = scope["method"] == "OPTIONS" and _header(scope, b"access-control-request-method")
        return _PREFLIGHT if asks else {}


def _header(scope: Scope, wanted: bytes) -> bytes:
    return next((value for name, value in scope["headers"] if name == wanted), b"")
