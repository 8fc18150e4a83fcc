"""Keys that open routes, as `Authorization: Bearer KEY`."""

from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest

from starlette.requests import Request

from service.problems import MissingKeyError, WrongKeyError

_SCHEME = "bearer"


class KeyLock:
    """Opens to whoever has one of `keys`; to nobody where there is none."""

    def __init__(self, keys: Iterable[str], *, variable: str) -> None:
        """Make the lock of the keys that the setting `variable` holds."""
        self._digests = [sha256(key.encode()).digest() for key in keys]
        self.variable = variable

    def check(self, request: Request) -> None:
        """Let a request with a key pass.

        :raises MissingKeyError: When it has none.
        :raises WrongKeyError: When it has another one, or there is none that would do.
        """
        if not self._digests:
            raise WrongKeyError(f"nobody may do this by HTTP, since {self.variable} is not set")
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != _SCHEME:
            raise MissingKeyError(
                f"the request has no key; `Authorization: Bearer KEY` with one of {self.variable} "
                "is expected"
            )
        # All digests are compared, each in constant time: the time tells nothing of any key.
        given = sha256(key.strip().encode("latin-1")).digest()
        if not sum(compare_digest(given, digest) for digest in self._digests):
            raise WrongKeyError(f"the key is none of {self.variable}")
