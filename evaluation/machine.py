"""On what a figure was measured."""

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from retrieval.processors import available_processors


def describe_machine(packages: Sequence[str], *, threads: str) -> str:
    """One Markdown line: processor, cores, memory, system, versions of `packages`, threads."""
    versions = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return (
        f"Machine: {_processor()}, {available_processors()} cores, {_memory_gib()} GiB, "
        f"{platform.system()} {platform.machine()}. {', '.join(versions)}. Threads: {threads}."
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    fields = {name.strip(): value for name, _, value in (line.partition(":") for line in lines)}
    flags = fields.get("flags", "").split()
    known = [flag for flag in ("avx2", "avx512f", "avx512_vnni", "amx_int8") if flag in flags]
    return f"{fields.get('model name', 'unknown processor').strip()} ({', '.join(known)})"


def _memory_gib() -> int:
    try:
        (total,) = (
            line.split()[1]
            for line in Path("/proc/meminfo").read_text().splitlines()
            if line.startswith("MemTotal")
        )
    except (OSError, ValueError):
        return 0
    return round(int(total) / 2**20)
