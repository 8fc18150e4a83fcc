"""Checks the memory limit (cgroup): under too small a limit, the kernel kills the process."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from swiftlet.errors import InvalidArgumentError

if TYPE_CHECKING:  # a container checks its memory before it loads NumPy and ONNX Runtime
    from swiftlet.encoders.opening import Place

MEBIBYTE = 2**20

BASE_BYTES = 70 * MEBIBYTE
"""The memory of Python and the packages, which is never freed."""

_BYTES_A_MODEL_BYTE = 3
_BYTES_A_THREAD = 6 * MEBIBYTE
"""Both found by measurement, with one to eight threads and both encoders that ship."""

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


def check_memory_limit(
    index: Path | None,
    encoder: "Place | None",
    *,
    threads: int,
    processes: int = 1,
    cache_bytes: int,
    limit_bytes: int | None,
    document_encoder: "Place | None" = None,
    reranker: Path | None = None,
) -> None:
    """Refuse a limit under which the service would be killed at the start or soon after.

    The files of an index are mapped, so the kernel can drop their pages and read them again. A
    limit without room for them makes searches slow, and only causes a warning. So does a limit
    without room for a reload, which holds the next index and encoder beside the present ones.

    :param index: The index directory; None if another machine holds the index.
    :param document_encoder: Encodes written documents in a process of its own, which the warnings
        count; None where nothing can be written.
    :raises InvalidArgumentError: When the limit is too small.
    """
    needed = _encoding_bytes(encoder) + _BYTES_A_THREAD * threads + cache_bytes
    if reranker is not None:
        needed += _encoding_bytes(reranker) - BASE_BYTES
    needed *= processes
    check_bytes(needed, limit_bytes, "to serve")
    writing = 0 if document_encoder is None else _encoding_bytes(document_encoder)
    files = [] if index is None else [path for path in index.glob("*") if path.is_file()]
    mapped = sum(path.stat().st_size for path in files)
    # During a reload everything of the service but its packages is in memory twice.
    reloading = 2 * (needed + mapped) - processes * BASE_BYTES + writing
    for wanted, consequence in (
        (needed + mapped + writing, "of index and service: searches will read from the disk"),
        (reloading, "that a reload needs: one may end the process"),
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


def _encoding_bytes(encoder: "Place | None") -> int:
    """What a process with this encoder takes; of a function, nothing is known."""
    found = encoder.glob("*.onnx") if isinstance(encoder, Path) else ()
    models = [path.stat().st_size for path in found]
    # The precision is not known yet, so the smallest model counts.
    return BASE_BYTES + _BYTES_A_MODEL_BYTE * min(models, default=0)


def _mebibytes(size_bytes: int) -> int:
    return -(-size_bytes // MEBIBYTE)
