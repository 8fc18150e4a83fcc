"""The machine that figures were measured on."""

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from swiftlet.retrieval.processors import available_processors

FEATURES = ("avx2", "avx512f", "avx512_vnni", "amx_int8")
"""Features on which the int8 speed of a processor depends."""


def describe_machine(packages: Sequence[str], *, threads: str) -> str:
    """One Markdown line: processor, cores, memory, system, versions of `packages`, threads."""
    versions = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    memory_gib = psutil.virtual_memory().total / 2**30
    return (
        f"Machine: {_cpu_field('model name') or 'unknown processor'} "
        f"({', '.join(cpu_features())}), {available_processors()} cores, {memory_gib:.0f} GiB, "
        f"{platform.system()} {platform.machine()}. {', '.join(versions)}. Threads: {threads}."
    )


def cpu_features() -> list[str]:
    """Those of `FEATURES` that the processor has; none where the system does not list them."""
    flags = _cpu_field("flags").split()
    return [feature for feature in FEATURES if feature in flags]


def _cpu_field(name: str) -> str:
    """A field of the first processor in /proc/cpuinfo; psutil has no such information."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return ""
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return next((value.strip() for key, value in fields.items() if key.strip() == name), "")
