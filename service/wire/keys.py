"""API keys, sent as `Authorization: Bearer KEY`."""

from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest

from fastapi import Request
from fastapi.security import HTTPBearer

from service.wire.context import RequestContext
from service.wire.problems import MissingKeyError
from service.wire.rights import KeyFile, Right, WrongKeyError

_HEED_FILTERS = {
    "/search",
    "/search/batch",
    "/facets",
    "/documents/{document_id}",
    "/v1/embeddings",
    "/v1/models",
    "/rerank",
    "/v1/rerank",
    "/v2/rerank",
    "/feedback",
    "/indexes",
    None,  # below a name that no index has
}
"""The routes that show a key only what its filter passes, or nothing of an index."""


class ApiKey(HTTPBearer):
    """A dependency that refuses requests without one of some keys; all of them without any."""

    def __init__(
        self,
        keys: Iterable[str],
        *,
        variable: str,
        right: Right = "search",
        file: KeyFile | None = None,
    ) -> None:
        """Accept the keys that the setting `variable` holds, and those with a right in a file."""
        super().__init__(
            scheme_name=variable,
            description=f"One of the keys that {variable} holds.",
            auto_error=False,
        )
        self._digests = [sha256(key.encode()).digest() for key in keys]
        self._variable, self._right, self._file = variable, right, file

    async def __call__(self, request: Request) -> None:  # type: ignore[override]
        """Let a request with a key pass.

        :raises MissingKeyError: When it has none.
        :raises WrongKeyError: When it has another one, or no keys are set.
        :raises BusyKeyError: When its key has asked for as much as it may.
        """
        context: RequestContext = request.state.context
        if context.key is not None:  # it has passed: a route asks before its body is read
            return
        if not self._digests and self._file is None:
            raise WrongKeyError(f"this route refuses all keys, because {self._variable} is not set")
        named = self._variable
        if self._file is not None:
            named = f"{named} or of the file SWIFTLET_KEYS"
        credentials = await super().__call__(request)
        if credentials is None:
            raise MissingKeyError(
                "the request has no key; `Authorization: Bearer KEY` with one of "
                f"{named} is expected"
            )
        # All digests are compared, each in constant time, so the time reveals nothing about a key.
        given = sha256(credentials.credentials.strip().encode("latin-1")).digest()
        if sum(compare_digest(given, digest) for digest in self._digests):
            return
        found = None if self._file is None else await self._file.find(given)
        if found is None:
            raise WrongKeyError(f"the key is none of {named}")
        route = getattr(request.scope.get("route"), "path_format", None)
        index = None if route == "/indexes" else context.index  # it names those that the key opens
        found.key.check(self._right, index, heeds_filter=route in _HEED_FILTERS)
        found.take()
        context.key = found
