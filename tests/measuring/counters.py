"""What the service itself has counted."""

import re
import time
from collections import Counter

import httpx

COUNTED = re.compile(
    r'^swiftlet_requests_total\{route="([^"]+)",status="(\d+)"\} (\S+)$', re.MULTILINE
)


def counted(url: str, prefix: str = "/search") -> Counter[tuple[str, int]]:
    """Requests by route and status, where there was one, of routes that begin with `prefix`."""
    found = COUNTED.findall(httpx.get(f"{url}/metrics").text)
    counts = {(route, int(status)): int(float(count)) for route, status, count in found}
    return +Counter({key: count for key, count in counts.items() if key[0].startswith(prefix)})


def assert_counted(url: str, expected: Counter[tuple[str, int]], prefix: str = "/search") -> None:
    """A request is counted when its answer has left, which its client may notice before."""
    deadline = time.monotonic() + 60
    while (found := counted(url, prefix)) != expected and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found == expected
