"""How many cores this process may use, in a container often fewer than the machine has."""

import math
import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def available_processors(cgroup: Path = _CGROUP) -> int:
    """The cores of the CPU quota (cgroup v2 or v1), rounded up, and of the affinity mask; ≥ 1."""
    processors = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    )
    quota = _quota(cgroup)
    return max(1, min(processors or 1, math.ceil(quota) if quota else processors or 1))


def _quota(cgroup: Path) -> float | None:
    """The CPU quota in cores, or None if there is none."""
    try:
        limit, period = (cgroup / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            limit = (cgroup / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (cgroup / "cpu" / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    try:
        cores = int(limit) / int(period)
    except (ValueError, ZeroDivisionError):  # "max" means no quota
        return None
    return cores if cores > 0 else None
