"""The machine that figures were measured on."""

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from swiftlet.processors import available_processors

KINDS = {
    "amx_int8": "AMX",
    "avx512_vnni": "AVX-512 VNNI",
    "avx_vnni": "AVX-VNNI",
    "avx512f": "AVX-512 without VNNI",
    "avx2": "AVX2 only",
    "i8mm": "ARM i8mm",
    "asimddp": "ARM dot product",
}
"""The kinds of processors by the feature that the speed of int8 depends on, the best first."""

CPUINFO = Path("/proc/cpuinfo")


def describe_machine(packages: Sequence[str], *, threads: str) -> str:
    """One Markdown line: processor, cores, memory, system, versions of `packages`, threads."""
    versions = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    processor = _cpu_field("model name") or "unknown processor"
    # Processors of several generations have one name.
    for label, name in (("family", "cpu family"), ("model", "model")):
        if found := _cpu_field(name):
            processor += f", {label} {found}"
    cores = available_processors()
    memory_gib = psutil.virtual_memory().total / 2**30
    return (
        f"Machine: {processor} ({processor_kind()}), {cores} core{'s' * (cores != 1)}, "
        f"{memory_gib:.0f} GiB, "
        f"{platform.system()} {platform.machine()}. {', '.join(versions)}. Threads: {threads}."
    )


def processor_kind() -> str:
    """One of `KINDS`, or "unknown kind" where the system lists none of their features."""
    flags = f"{_cpu_field('flags')} {_cpu_field('Features')}".split()
    return next((kind for feature, kind in KINDS.items() if feature in flags), "unknown kind")


def _cpu_field(name: str) -> str:
    """A field of the first processor in /proc/cpuinfo; psutil has no such information."""
    try:
        lines = CPUINFO.read_text("utf-8").splitlines()
    except OSError:
        return ""
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return next((value.strip() for key, value in fields.items() if key.strip() == name), "")
