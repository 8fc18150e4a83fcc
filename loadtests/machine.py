"""On what was measured: machine, versions, artefacts."""

import json
import os
import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from loadtests.command_line import LoadTestError

MANIFEST_FILE = "manifest.json"
PACKAGES = (
    "swiftlet-retrieval", "onnxruntime", "faiss-cpu", "tokenizers", "fastapi", "uvicorn", "uvloop",
    "httptools", "torch", "sentence-transformers", "locust", "gevent", "numpy",
)  # fmt: skip


def describe_machine(packages: Iterable[str] = PACKAGES) -> str:
    """One line: processor, cores, memory, system, and the versions of what is installed."""
    versions = []
    for package in packages:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{_processor()}, {len(os.sched_getaffinity(0))} cores, {gib:.0f} GiB, "
        f"{platform.system()} {platform.release()} {platform.machine()}. "
        f"Python {platform.python_version()}, {', '.join(versions)}."
    )


def threads_of_a_core() -> bool:
    """Whether some of this machine's cores are threads of one physical core."""
    folder = Path("/sys/devices/system/cpu")
    siblings = [
        path.read_text().strip() for path in folder.glob("cpu*/topology/thread_siblings_list")
    ]
    return any("," in each or "-" in each for each in siblings)


def read_manifest(directory: Path) -> Mapping[str, Any]:
    """The manifest of an artefact directory.

    :raises LoadTestError: When there is none that can be read.
    """
    file = directory / MANIFEST_FILE
    try:
        manifest: Mapping[str, Any] = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise LoadTestError(f"{directory} is no artefact: {file} cannot be read") from error
    return manifest


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    fields = {name.strip(): value for name, _, value in (line.partition(":") for line in lines)}
    return fields.get("model name", "unknown processor").strip()
