"""What the service itself has counted."""

import re
import time
from collections import Counter

import httpx

COUNTED = re.compile(
    r'^swiftlet_requests_total\{route="(/search[^"]*)",status="(\d+)"\} (\S+)$', re.MULTILINE
)


def counted(url: str) -> Counter[tuple[str, int]]:
    """Requests by route and status, where there was one."""
    found = COUNTED.findall(httpx.get(f"{url}/metrics").text)
    return +Counter({(route, int(status)): int(float(count)) for route, status, count in found})


def assert_counted(url: str, expected: Counter[tuple[str, int]]) -> None:
    """A request is counted when its answer has left, which its client may notice before."""
    deadline = time.monotonic() + 5
    while (found := counted(url)) != expected and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found == expected
