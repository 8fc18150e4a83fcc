"""Memory that runs out, told in one sentence."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from training.context import last_checkpoint
from training.errors import TrainingStoppedError
from training.recipe import Recipe

_NO_MEMORY = re.compile("out of memory|allocate memory|STATUS_ALLOC_FAILED|bad_alloc")


@contextmanager
def memory_errors(recipe: Recipe, out: Path) -> Iterator[None]:
    """Say which settings to lower if memory runs out inside, on any device.

    :raises TrainingStoppedError: When it does.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:  # torch's are RuntimeErrors, on every device
        if isinstance(error, RuntimeError) and not _NO_MEMORY.search(str(error)):
            raise
        settings = recipe.optimiser
        size = settings.micro_batch_size or settings.batch_size
        raise TrainingStoppedError(
            f"memory ran out: lower optimiser.micro_batch_size (now {size}) or set "
            "document_encoder.gradient_checkpointing, which --resume allows, or begin anew with a "
            f"lower document_encoder.max_tokens or negatives.cache_fraction{last_checkpoint(out)}"
        ) from error
