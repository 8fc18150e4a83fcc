"""A process that has few file descriptors left."""

import gc
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def only_more_descriptors(count: int) -> Iterator[None]:
    """In the block, this process can open `count` files more, and then none."""
    gc.disable()  # else a collection in the block may close files of before
    held: list[int] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(each.name) for each in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + count, hard))
    try:
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            for descriptor in held[len(held) - count :]:
                os.close(descriptor)
        del held[len(held) - count :]
        yield
    finally:
        gc.enable()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in held:
            os.close(descriptor)
