"""A transport that sends the head of an answer together with its body."""

from asyncio import Transport
from typing import Any

_HEAD, _INTERIM_HEAD = b"HTTP/1.1 ", b"HTTP/1.1 1"
"""How heads begin, and those of which another one follows before there is any body."""


class JoinedWrites:
    """Holds back the head of an answer until its body comes, so that both leave at once.

    The server writes the two one after the other, and each would leave by itself: two calls of the
    kernel, and a client that is woken for half an answer.
    """

    def __init__(self, transport: Transport) -> None:
        """Write to `transport`, which does everything else as well."""
        self._transport = transport
        self._head = b""
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send `data` and what was held back, or hold it back if it is the head of an answer."""
        if data.startswith(_HEAD) and not data.startswith(_INTERIM_HEAD):
            self.flush()
            self._head = data
        else:
            self._transport.write(self._head + data)
            self._head = b""

    def flush(self) -> None:
        """Send what was held back: the answer has no body."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""

    def close(self) -> None:
        """Send what was held back, and close."""
        self.flush()
        self._transport.close()
