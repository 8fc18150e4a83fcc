"""Turns of the event loop, one for each thing that may hold it up for milliseconds."""

import asyncio
from collections import deque
from collections.abc import Callable

BYTES_AT_ONCE = 4_096
"""A head or a body of at most this size is handled at once: it takes less than two milliseconds."""


class Turns:
    """Handles large heads and bodies one in each turn of the event loop, in their order.

    Between two of them the loop answers small requests, however many clients send large ones.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], object]] = deque()

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the next turn that is free."""
        self._waiting.append(function)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._next)

    async def take(self, size_bytes: int) -> None:
        """Wait for a turn, before a head or a body of this size is handled."""
        if size_bytes > BYTES_AT_ONCE:
            turn = asyncio.Event()
            self.call(turn.set)
            await turn.wait()

    def _next(self) -> None:
        function = self._waiting.popleft()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
        function()
