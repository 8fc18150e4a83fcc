"""Checks the memory limit (cgroup): under too small a limit, the kernel kills the process."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from swiftlet.errors import InvalidArgumentError

if TYPE_CHECKING:  # a container checks its memory before it loads NumPy and ONNX Runtime
    from swiftlet.encoders.opening import Place

MEBIBYTE = 2**20

BASE_BYTES = 78 * MEBIBYTE
"""The memory of Python and the packages, which is never freed."""

_BYTES_A_MODEL_BYTE = 3
_BYTES_A_THREAD = 6 * MEBIBYTE
"""Both found by measurement, with one to eight threads and both encoders that ship."""

_BYTES_A_PROCESS = 40 * MEBIBYTE
"""Of each of several processes, beside what they share: `docs/decisions/service.md`."""

_CGROUP = Path("/sys/fs/cgroup")
# cgroup v1 writes "no limit" as the largest multiple of a page.
_NO_LIMIT = 2**60

logger = logging.getLogger(__name__)


def memory_limit(cgroup: Path = _CGROUP) -> int | None:
    """The memory limit (cgroup v2 or v1) in bytes, or None if there is none."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            limit = int((cgroup / name).read_text())
        except (OSError, ValueError):  # "max" means no limit
            continue
        return limit if limit < _NO_LIMIT else None
    return None


@dataclass(frozen=True, slots=True)
class NeededMemory:
    """The bytes without which a service cannot answer, is slow, or cannot reload."""

    serving: int
    with_files: int
    reloading: int


def needed_memory(
    index: Path | None,
    encoder: "Place | None",
    *,
    threads: int,
    processes: int = 1,
    cache_bytes: int,
    document_encoder: "Place | None" = None,
    reranker: Path | None = None,
    challenger: "Place | None" = None,
) -> NeededMemory:
    """What a service needs. Its processes share the packages and the first encoder.

    The files of an index are mapped, so the kernel can drop their pages and read them again.

    :param index: The index directory; None if another machine holds the index.
    :param document_encoder: Encodes written documents in a process of its own; None where nothing
        can be written.
    """
    models = _model_bytes(encoder) + (0 if reranker is None else _model_bytes(reranker))
    # Each process opens the challenger's encoder itself.
    of_each = _BYTES_A_THREAD * threads + cache_bytes
    of_each += 0 if challenger is None else _model_bytes(challenger)
    if processes > 1:
        of_each += _BYTES_A_PROCESS
    serving = BASE_BYTES + models + processes * of_each
    writing = 0 if document_encoder is None else BASE_BYTES + _model_bytes(document_encoder)
    files = [] if index is None else [path for path in index.glob("*") if path.is_file()]
    mapped = sum(path.stat().st_size for path in files)
    # Each process holds the next index and encoder beside the present ones.
    reloading = 2 * (serving - BASE_BYTES + (processes - 1) * models + mapped) + BASE_BYTES
    return NeededMemory(serving, serving + mapped + writing, reloading + writing)


def most_processes(
    threads: int, needed: Callable[..., NeededMemory], limit_bytes: int | None
) -> int:
    """The most processes, at most one a thread, for which a limit has room also in a reload."""
    for processes in range(threads, 1, -1):
        memory = needed(threads=threads // processes, processes=processes)
        if limit_bytes is None or memory.reloading <= limit_bytes:
            return processes
    return 1


def check_memory_limit(needed: NeededMemory, limit_bytes: int | None) -> None:
    """Refuse a limit under which the service would be killed at the start or soon after.

    A limit without room for the files makes searches slow, and only causes a warning. So does a
    limit without room for a reload.

    :raises InvalidArgumentError: When the limit is too small.
    """
    check_bytes(needed.serving, limit_bytes, "to serve")
    for wanted, consequence in (
        (needed.with_files, "of index and service: searches will read from the disk"),
        (needed.reloading, "that a reload needs: one may end the process"),
    ):
        if limit_bytes is not None and wanted > limit_bytes:
            logger.warning(
                "the memory limit of %d MiB is less than the %d MiB %s",
                limit_bytes // MEBIBYTE,
                _mebibytes(wanted),
                consequence,
            )


def check_bytes(needed: int, limit_bytes: int | None, purpose: str) -> None:
    """Refuse a limit below the `needed` bytes; `purpose` ends the error message.

    :raises InvalidArgumentError: When the limit is too small.
    """
    if limit_bytes is not None and limit_bytes < needed:
        raise InvalidArgumentError(
            f"the memory limit is {limit_bytes // MEBIBYTE} MiB; at least {_mebibytes(needed)} MiB "
            f"is expected {purpose}"
        )


def _model_bytes(encoder: "Place | None") -> int:
    """What the model of an encoder takes; of a function, nothing is known."""
    found = encoder.glob("*.onnx") if isinstance(encoder, Path) else ()
    models = [path.stat().st_size for path in found]
    # The precision is not known yet, so the smallest model counts.
    return _BYTES_A_MODEL_BYTE * min(models, default=0)


def _mebibytes(size_bytes: int) -> int:
    return -(-size_bytes // MEBIBYTE)
