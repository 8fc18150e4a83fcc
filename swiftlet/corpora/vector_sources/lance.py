"""A table of LanceDB, or a dataset of Lance."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from swiftlet.corpora.fields import Fields
from swiftlet.corpora.lines import read_errors, reason_of
from swiftlet.corpora.tables import rows_at_once
from swiftlet.corpora.vector_sources.columns import of_batches
from swiftlet.corpora.vector_sources.place import Place
from swiftlet.corpora.vector_sources.source import Source
from swiftlet.errors import CollectionError
from swiftlet.extras import extra

SUFFIX = ".lance"


def is_lance(folder: Path) -> bool:
    """Whether a folder is a dataset of Lance, or has some, as a database of LanceDB."""
    return folder.suffix.lower() == SUFFIX or any(folder.glob(f"*{SUFFIX}"))


def open_lance(place: Place, vector_field: str | None, fields: Fields | None) -> Source:
    """The rows of a `.lance` folder, or of a table in a folder of these, which `?table=` chooses.

    :raises CollectionError: When it cannot be read; as `open_table`.
    :raises MissingExtraError: When pylance is not installed.
    """
    with extra("lance"):
        import lance
    path = place.folder
    if path.suffix.lower() != SUFFIX:
        tables = sorted(each.stem for each in path.glob(f"*{SUFFIX}"))
        path /= place.one("table", tables) + SUFFIX
    with _reading(path):
        dataset = lance.dataset(str(path))
        count = dataset.count_rows()
        # Four bytes for each number of a vector; other columns are small beside it.
        size = 4 * sum(getattr(field.type, "list_size", 0) for field in dataset.schema)

    def batches() -> Iterator[Any]:
        with _reading(path):
            step = rows_at_once(size * count, count)
            yield from dataset.to_batches(batch_size=step, scan_in_order=True)

    return of_batches(f"{path}", batches, count, vector_field, fields)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Name read errors; on damaged files Lance may also panic, which is no `Exception`."""
    try:
        with read_errors(path, Exception):
            yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise CollectionError(path, f"cannot be read: {reason_of(f'{error}')}") from error
