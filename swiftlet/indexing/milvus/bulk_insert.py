"""Bulk insert: a Milvus server reads rows from Parquet files instead of from requests."""

import json
import re
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import Any

from swiftlet.indexing.milvus.rows import Row
from swiftlet.retrieval.errors import IndexServerError, InvalidArgumentError
from swiftlet.retrieval.extras import extra
from swiftlet.retrieval.milvus.collection import Collection
from swiftlet.retrieval.milvus.schema import INSERTING

_FILE_ROWS = 50_000
_BATCH_ROWS = 1_000
_MOST_WAITING = 2  # so many files the server reads while the next one is written
_POLL_SECONDS = 0.5
_FAILED, _COMPLETED = (1, 7), 6  # states of Milvus


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
        self._name = re.sub(r"(?<=://)[^/?]*@|\?.*", "", place)  # without a password
        self._errors = ArrowException, OSError
        with self._refusals():
            if "://" in place:
                files, path = fs.FileSystem.from_uri(place)
                # The server names its bucket, or whatever the first part is, by itself.
                self._of_server = PurePosixPath(*PurePosixPath(path).parts[1:])
            else:
                files, path = fs.LocalFileSystem(), str(Path(place).resolve())
                self._of_server = PurePosixPath(path)
            files.create_dir(path)
        self._files = fs.SubTreeFileSystem(path, files)

    def __str__(self) -> str:
        return self._name

    def for_server(self, name: str) -> str:
        """The path by which the server knows a file."""
        return str(self._of_server / name)

    def write(self, name: str, schema: Any, rows: Iterator[Row]) -> int:
        """Write rows to a new file; returns how many."""
        import pyarrow
        from pyarrow.parquet import ParquetWriter

        number = 0
        with (
            self._refusals(),
            self._files.open_output_stream(name) as stream,
            ParquetWriter(stream, schema) as writer,
        ):
            while batch := [*islice(rows, _BATCH_ROWS)]:
                writer.write_batch(pyarrow.RecordBatch.from_pylist(batch, schema))
                number += len(batch)
        return number

    def remove(self, name: str) -> None:
        """Remove a file."""
        with self._refusals():
            self._files.delete_file(name)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise InvalidArgumentError(
                f"files for the bulk insert cannot be written to {self}: {error}; name a folder "
                "or s3://BUCKET/PATH that the server reads, too"
            ) from error


class BulkInsert:
    """Has the server insert rows from files."""

    def __init__(self, collection: Collection, place: Place) -> None:
        self._collection = collection
        self._place = place

    def insert(self, rows: Iterator[Row], done: int) -> Iterator[int]:
        """Insert rows; gives the number of rows of each file as soon as they are there.

        :param rows: Those after the first `done` ones, which are there already.
        :raises IndexServerError: When the server cannot read a file, or is away.
        :raises InvalidArgumentError: When a file cannot be written.
        """
        description = self._collection.description()
        noted: dict[str, int] = json.loads(description["properties"].get(INSERTING, "{}"))
        # A server that was ended has given up its tasks.
        tasks = {
            each: noted[each] for each in noted if self._state(noted[each]).state not in _FAILED
        }
        schema, as_json = _schema(description)
        waiting: deque[tuple[str, int]] = deque()
        for first in rows:
            name = f"{description['collection_id']}-{done:012}.parquet"
            of_file = islice(chain([first], rows), _FILE_ROWS)
            if name in tasks:  # the server has it since before an interruption
                number = sum(1 for _ in of_file)
            else:
                number = self._place.write(name, schema, _with_json(of_file, as_json))
                files = [self._place.for_server(name)]
                tasks[name] = self._collection.call(
                    "do_bulk_insert", slow=True, partition_name="", files=files
                )
                self._collection.set_properties({INSERTING: json.dumps(tasks)}, slow=True)
            done += number
            waiting.append((name, number))
            if len(waiting) > _MOST_WAITING:
                yield from self._finished(*waiting.popleft(), tasks)
        for name, number in waiting:
            yield from self._finished(name, number, tasks)

    def _finished(self, name: str, number: int, tasks: dict[str, int]) -> Iterator[int]:
        """Wait until a file was inserted, and remove it when its `number` of rows is noted."""
        while (found := self._state(tasks[name])).state != _COMPLETED:
            if found.state in _FAILED:
                raise IndexServerError(
                    f"{self._collection.address.server} cannot insert "
                    f"{self._place.for_server(name)}: {found.failed_reason}; see that it reads "
                    f"{self._place}, and run the same command again to continue"
                )
            time.sleep(_POLL_SECONDS)
        yield number
        del tasks[name]
        self._place.remove(name)

    def _state(self, task: int) -> Any:
        return self._collection.call("get_bulk_insert_state", task_id=task)


def _schema(description: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """The columns of files for a collection, and which of them have JSON."""
    import pyarrow
    from pymilvus import DataType

    types = {
        DataType.INT64: pyarrow.int64(),
        DataType.FLOAT_VECTOR: pyarrow.list_(pyarrow.float32()),
    }
    fields = {field["name"]: field["type"] for field in description["fields"]}
    columns = {name: types.get(kind, pyarrow.string()) for name, kind in fields.items()}
    has_json = DataType.JSON, DataType.SPARSE_FLOAT_VECTOR
    return pyarrow.schema(columns), [name for name, kind in fields.items() if kind in has_json]


def _with_json(rows: Iterator[Row], columns: Sequence[str]) -> Iterator[Row]:
    for row in rows:
        yield {**row, **{column: json.dumps(row[column]) for column in columns}}
