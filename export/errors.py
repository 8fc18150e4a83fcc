"""What can stand in the way of an export."""

from collections.abc import Iterator
from contextlib import contextmanager

from retrieval.errors import RetrievalError


class ExportError(RetrievalError):
    """A model cannot be exported, or what was exported is not what torch computes."""


@contextmanager
def export_extra() -> Iterator[None]:
    """Turn a missing package of the extra `export` into one sentence.

    :raises ExportError: When the block imports what is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ExportError(
            f"exporting needs the package {error.name!r}: pip install 'swiftlet-retrieval[export]'"
        ) from error
