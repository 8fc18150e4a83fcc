"""API keys, sent as `Authorization: Bearer KEY`."""

from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest

from fastapi import Request
from fastapi.security import HTTPBearer

from service.wire.problems import MissingKeyError, WrongKeyError


class ApiKey(HTTPBearer):
    """A dependency that refuses requests without one of `keys`; all of them if there are none."""

    def __init__(self, keys: Iterable[str], *, variable: str) -> None:
        """Accept the keys that the setting `variable` holds."""
        super().__init__(
            scheme_name=variable,
            description=f"One of the keys that {variable} holds.",
            auto_error=False,
        )
        self._digests = [sha256(key.encode()).digest() for key in keys]
        self._variable = variable

    async def __call__(self, request: Request) -> None:  # type: ignore[override]
        """Let a request with a key pass.

        :raises MissingKeyError: When it has none.
        :raises WrongKeyError: When it has another one, or no keys are set.
        """
        if not self._digests:
            raise WrongKeyError(f"this route refuses all keys, because {self._variable} is not set")
        credentials = await super().__call__(request)
        if credentials is None:
            raise MissingKeyError(
                "the request has no key; `Authorization: Bearer KEY` with one of "
                f"{self._variable} is expected"
            )
        # All digests are compared, each in constant time, so the time reveals nothing about a key.
        given = sha256(credentials.credentials.strip().encode("latin-1")).digest()
        if not sum(compare_digest(given, digest) for digest in self._digests):
            raise WrongKeyError(f"the key is none of {self._variable}")
