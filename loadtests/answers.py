"""What an answer says."""

import re

OK = 200
REJECTIONS = (429, 503, 504)
"""Statuses with which a service sheds load: too many wait, it is about to stop, it is too late."""

TOTAL = "total"
"""The stage that is the whole time of a request inside the service."""

_STAGE = re.compile(r"([\w-]+);dur=([0-9.]+)")


def stage_times(server_timing: str) -> dict[str, float]:
    """Milliseconds of each stage in a Server-Timing header, in its order."""
    return {name: float(value) for name, value in _STAGE.findall(server_timing)}
