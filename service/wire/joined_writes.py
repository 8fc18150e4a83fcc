"""A transport that sends the head of an answer together with its body."""

from asyncio import Transport
from typing import Any

_HEAD, _INTERIM_HEAD = b"HTTP/1.1 ", b"HTTP/1.1 1"
"""The first bytes of every head, and of interim heads, which another head follows."""


class JoinedWrites:
    """Holds back the head of an answer until its body comes, so that one system call sends both.

    uvicorn writes the two one after the other, each in a system call of its own.
    docs/results/smaller.md#the-cost-of-fastapi-and-of-each-part-of-the-service has the difference.
    """

    def __init__(self, transport: Transport) -> None:
        """Write to `transport`, which does everything else as well."""
        self._transport = transport
        self._head = b""
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send `data` and the head that was held back, or hold `data` back if it is a head."""
        if data.startswith(_HEAD) and not data.startswith(_INTERIM_HEAD):
            self.flush()
            self._head = data
        else:
            self._transport.write(self._head + data)
            self._head = b""

    def flush(self) -> None:
        """Send the head of an answer that has no body."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""

    def close(self) -> None:
        """Send what was held back, and close."""
        self.flush()
        self._transport.close()
