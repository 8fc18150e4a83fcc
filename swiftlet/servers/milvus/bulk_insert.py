"""Bulk insert: a Milvus server reads rows from Parquet files instead of from requests."""

import json
import re
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from math import inf
from pathlib import Path, PurePosixPath
from typing import Any

from pymilvus import DataType

from swiftlet.errors import IndexServerError, InvalidArgumentError, StorageError
from swiftlet.extras import extra
from swiftlet.progress import Progress
from swiftlet.servers.milvus.collection import Collection
from swiftlet.servers.milvus.rows import Row

_FILE_ROWS = 50_000
_BATCH_ROWS = 1_000
_MOST_WAITING = 2  # files that the server reads while the next one is written
_POLL_SECONDS = 0.5
_PATIENCE_SECONDS = 30
_FAILED, _COMPLETED = (1, 7), 6  # states of Milvus
_IS_ADDRESS = re.compile("[a-z][a-z0-9+.-]+:/")


class Place:
    """A folder or a part of a bucket that this machine writes and the server reads."""

    def __init__(self, place: str) -> None:
        """Reach it.

        :param place: A folder, or an address for pyarrow as s3://BUCKET/PATH.
        :raises InvalidArgumentError: When it cannot be written.
        :raises MissingExtraError: When pyarrow is not installed.
        """
        with extra("arrow"):
            from pyarrow import ArrowException, fs
        self._errors = ArrowException, OSError
        scheme, colon, path = place.partition("?")[0].partition("://")
        self.name = f"{scheme}{colon}{path.rpartition('@')[2]}"  # without a password
        try:
            if _IS_ADDRESS.match(place):
                files, path = fs.FileSystem.from_uri(place)
            else:
                files, path = fs.LocalFileSystem(), str(Path(place).resolve(strict=True))
            files.create_dir(path)
        except (*self._errors, ValueError) as error:
            reason = f"{error}".replace(place, self.name)
            raise InvalidArgumentError(
                f"files for the bulk insert cannot be written to {self.name} ({reason}): name a "
                "folder, or s3://BUCKET/PATH?endpoint_override=HOST:PORT, that the server reads"
            ) from error
        parts = PurePosixPath(path).parts
        # The server names its bucket by itself.
        is_local = isinstance(files, fs.LocalFileSystem)
        self._of_server = PurePosixPath(*parts if is_local else parts[1:])
        self._files = fs.SubTreeFileSystem(path, files)

    def for_server(self, name: str) -> str:
        """The path by which the server knows a file."""
        return str(self._of_server / name)

    def write(self, name: str, schema: Any, batches: Iterator[list[Row]]) -> int:
        """Write rows to a new file, in the place of an earlier one; returns how many.

        :raises StorageError: When that fails.
        """
        import pyarrow
        from pyarrow.parquet import ParquetWriter

        number = 0
        try:
            with (
                self._files.open_output_stream(name) as stream,
                ParquetWriter(stream, schema) as writer,
            ):
                for rows in batches:
                    writer.write_batch(pyarrow.RecordBatch.from_pylist(rows, schema))
                    number += len(rows)
        except self._errors as error:
            raise StorageError(f"{name} cannot be written to {self.name}: {error}") from error
        return number

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with suppress(*self._errors):
            self._files.delete_file(name)


class BulkInsert:
    """Has the server insert rows from files."""

    def __init__(self, collection: Collection, place: Place) -> None:
        self._collection, self._place = collection, place

    def insert(self, rows: Iterator[Row], done: int, progress: Progress) -> Iterator[int]:
        """Insert rows; gives the number of rows of each file when they are there.

        :param rows: Those after the first `done` ones, which are there already.
        :raises IndexServerError: When the server cannot read a file, or is away.
        :raises StorageError: When a file cannot be written.
        """
        description = self._collection.description()
        schema, as_json = _schema(description)
        # What the server has since before an interruption.
        begun = {_file_of(task): task.task_id for task in _tasks(self._collection)}
        waiting: deque[tuple[str, int, int]] = deque()
        for first in rows:
            name = f"{description['collection_id']}-{done:012}.parquet"
            batches = _batches(islice(chain([first], rows), _FILE_ROWS), as_json, progress)
            if name in begun:
                task, number = begun[name], sum(map(len, batches))
            else:
                number = self._place.write(name, schema, batches)
                files = [self._place.for_server(name)]
                task = self._collection.call(
                    "do_bulk_insert", slow=True, once=True, partition_name="", files=files
                )
            done += number
            waiting.append((name, task, number))
            if len(waiting) > _MOST_WAITING:
                yield self._finished(*waiting.popleft(), progress)
        for each in waiting:
            yield self._finished(*each, progress)

    def _finished(self, name: str, task: int, number: int, progress: Progress) -> int:
        """Wait until a file was inserted, and remove it; returns its `number` of rows."""
        late = time.monotonic() + _PATIENCE_SECONDS
        while True:
            found = self._collection.call("get_bulk_insert_state", task_id=task)
            if found.state == _COMPLETED:
                self._place.remove(name)
                return number
            if found.state in _FAILED:
                self._place.remove(name)
                raise IndexServerError(
                    f"{self._collection.address.server} cannot insert "
                    f"{self._place.for_server(name)}: {found.failed_reason}; see that it reads "
                    f"{self._place.name}, and run the same command again to continue"
                )
            if time.monotonic() > late:
                late = inf
                progress.note(_waits(name))
            time.sleep(_POLL_SECONDS)


def await_tasks(collection: Collection, progress: Progress) -> None:
    """Wait until the server inserts no file: dropping a collection meanwhile stops all inserts."""
    noted = ""
    while tasks := [task for task in _tasks(collection) if task.state != _COMPLETED]:
        if not noted:
            progress.note(noted := _waits(_file_of(tasks[0])))
        time.sleep(_POLL_SECONDS)


def _waits(name: str) -> str:
    return f"the server is still inserting {name}; an interruption loses nothing"


def _tasks(collection: Collection) -> list[Any]:
    """The bulk inserts of a collection that have not failed."""
    found = collection.call("list_bulk_insert_tasks", limit=0)
    return [task for task in found if task.state not in _FAILED]


def _file_of(task: Any) -> str:
    return PurePosixPath(task.infos.get(task.IMPORT_FILES, "")).name


def _schema(description: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """The columns of files for a collection, and which of them have JSON."""
    import pyarrow

    types = {
        DataType.INT64: pyarrow.int64(),
        DataType.FLOAT_VECTOR: pyarrow.list_(pyarrow.float32()),
    }
    fields = {field["name"]: field["type"] for field in description["fields"]}
    columns = {name: types.get(kind, pyarrow.string()) for name, kind in fields.items()}
    has_json = DataType.JSON, DataType.SPARSE_FLOAT_VECTOR
    return pyarrow.schema(columns), [name for name, kind in fields.items() if kind in has_json]


def _batches(
    rows: Iterator[Row], as_json: Sequence[str], progress: Progress
) -> Iterator[list[Row]]:
    while batch := [*islice(rows, _BATCH_ROWS)]:
        yield [{**row, **{name: json.dumps(row[name]) for name in as_json}} for row in batch]
        progress.advance(len(batch))
