"""Packages that only some functions need, grouped in extras."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from swiftlet.retrieval.errors import MissingExtraError

Extra = Literal[
    "arrow", "evaluation", "export", "irds", "milvus", "tensorboard", "tracing", "training"
]


@contextmanager
def extra(name: Extra) -> Iterator[None]:
    """Turn a missing package of the extra `name` into one sentence.

    :raises MissingExtraError: When the block imports a package that is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"the package {error.name!r} is not installed: run pip install --constraint "
            f"constraints.txt '.[{name}]' in Swiftlet's source"
        ) from error
