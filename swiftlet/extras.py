"""Packages that only some functions need, grouped in extras."""

from collections.abc import Iterator
from contextlib import contextmanager

from swiftlet.errors import MissingExtraError


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Turn a missing package of the extra `name` into one sentence.

    :raises MissingExtraError: When the block imports a package that is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"the package {error.name!r} is not installed: run {way_to(name)}"
        ) from error


def way_to(name: str) -> str:
    """How an extra is installed, as the part of a sentence."""
    return f"pip install --constraint constraints.txt '.[{name}]' in Swiftlet's source"
