"""Memory that runs out, told in one sentence."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from training.context import last_checkpoint
from training.errors import TrainingStoppedError

_NO_MEMORY = re.compile("out of memory|allocate memory|STATUS_ALLOC_FAILED|bad_alloc")


@contextmanager
def memory_errors(advice: str, out: Path) -> Iterator[None]:
    """Say what to do if memory runs out inside, on any device.

    :param advice: Which settings to lower, as the part of a sentence after a colon.
    :raises TrainingStoppedError: When it does.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:  # torch's are RuntimeErrors, on every device
        if isinstance(error, RuntimeError) and not _NO_MEMORY.search(str(error)):
            raise
        raise TrainingStoppedError(f"memory ran out: {advice}{last_checkpoint(out)}") from error
