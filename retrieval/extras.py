"""What is installed only by those who need it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from retrieval.errors import MissingExtraError

Extra = Literal["evaluation", "export", "irds", "tensorboard", "tracing", "training"]


@contextmanager
def extra(name: Extra) -> Iterator[None]:
    """Turn a missing package of the extra `name` into one sentence.

    :raises MissingExtraError: When the block imports what is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"the package {error.name!r} is not installed: in Swiftlet's source, "
            f"pip install --constraint constraints.txt '.[{name}]' brings it"
        ) from error
