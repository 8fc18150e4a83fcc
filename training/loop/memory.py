"""Turns out-of-memory errors into one readable message."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from training.errors import TrainingStoppedError
from training.loop.checkpoints import last_checkpoint

_NO_MEMORY = re.compile("out of memory|allocate memory|STATUS_ALLOC_FAILED|bad_alloc")


@contextmanager
def memory_errors(advice: str, out: Path) -> Iterator[None]:
    """Catch out-of-memory errors on any device.

    :param advice: The settings to lower, as the part of a sentence after a colon.
    :raises TrainingStoppedError: When memory runs out.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:  # torch raises RuntimeError on every device
        if isinstance(error, RuntimeError) and not _NO_MEMORY.search(str(error)):
            raise
        raise TrainingStoppedError(f"memory ran out: {advice}{last_checkpoint(out)}") from error
