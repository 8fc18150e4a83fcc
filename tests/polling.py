"""Waiting for what comes about soon, however slow the machine is."""

import time
from collections.abc import Callable
from typing import TypeVar

import httpx

Result = TypeVar("Result")


def wait_until(function: Callable[[], Result]) -> Result:
    """The first true result of a function, which must come soon."""
    end = time.monotonic() + 200
    while not (result := function()):
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.01)
    return result


def is_answered(url: str) -> bool:
    """Whether a page is answered with success now."""
    try:
        return httpx.get(url, timeout=100).is_success
    except httpx.TransportError:
        return False
