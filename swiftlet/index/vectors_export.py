"""The passages of an index and their embeddings as a Parquet file, for other programs."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from swiftlet import disk
from swiftlet.arguments import StrPath, path_of
from swiftlet.errors import InvalidArgumentError
from swiftlet.extras import extra
from swiftlet.index.contents import Contents
from swiftlet.manifest import load_manifest
from swiftlet.progress import Progress, Silence
from swiftlet.publication import discard, locked_working_directory, sync_name
from swiftlet.types import Passage

SUFFIX = ".parquet"


def export_vectors(
    index: StrPath,
    out: StrPath,
    *,
    half: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> int:
    """Write a row for each passage of `index`, with its changes, to the Parquet file `out`.

    The columns are `passage_id`, `document_id`, `title`, `text`, `start`, `end`, `metadata` (JSON)
    and `embedding`, a list of fixed size: as precise as the index keeps it. The file is written
    completely or not at all. Memory holds some thousand rows.

    :param half: Write embeddings in half precision.
    :param overwrite: Replace an existing file.
    :param progress: Shows the progress, such as `ProgressLine()`; None shows nothing.
    :returns: The number of rows.
    :raises ArtefactError: When the index is damaged.
    :raises InvalidArgumentError: When the index does not keep embeddings, or `out` exists or has
        another ending.
    :raises MissingExtraError: When pyarrow is not installed.
    :raises StorageError: When the file system refuses.
    :raises UnfinishedWriteError: When the file is there, but a loss of power may undo it.
    """
    index, out = path_of("index", index), path_of("out", out)
    with extra("arrow"):
        import pyarrow
        import pyarrow.parquet
    progress = progress or Silence()
    if out.suffix != SUFFIX:
        raise InvalidArgumentError(f"{out} does not end in {SUFFIX}")
    if out.exists() and not overwrite:
        raise InvalidArgumentError(
            f"{out} exists; choose another place or pass --overwrite (in Python overwrite=True)"
        )
    manifest = load_manifest(index, "index")
    known = {"dim", "embedding_space", "metric", "normalised"}
    about = {name: value for name, value in manifest.fields().items() if name in known}
    about["encoder"] = manifest.details["encoder"]
    numbers = pyarrow.float16() if half else pyarrow.float32()
    text = pyarrow.string()
    schema = pyarrow.schema(
        {
            "passage_id": text,
            "document_id": text,
            "title": text,
            "text": text,
            "start": pyarrow.int64(),
            "end": pyarrow.int64(),
            "metadata": text,
            "embedding": pyarrow.list_(numbers, manifest.width),
        },
        metadata={"swiftlet": json.dumps(about)},
    )
    contents = Contents(index, manifest)
    total = sum(len(document.passages) for document in contents.documents())
    rows = _rows(Contents(index, manifest, contents.last))
    with locked_working_directory(out) as working, disk.storage_errors(out):
        try:
            progress.begin("Writing passages", total)
            with (
                disk.opened(working / "vectors") as file,
                pyarrow.parquet.ParquetWriter(file, schema) as writer,
            ):
                for embeddings in contents.embeddings():
                    block: dict[str, Any] = {name: [] for name in schema.names[:-1]}
                    for row in islice(rows, len(embeddings)):
                        for name, value in zip(block, row, strict=True):
                            block[name].append(value)
                    flat = embeddings.astype(np.float16 if half else np.float32).ravel()
                    block["embedding"] = pyarrow.FixedSizeListArray.from_arrays(
                        pyarrow.array(flat), manifest.width
                    )
                    writer.write_batch(pyarrow.record_batch(block, schema))
                    progress.advance(len(embeddings))
            disk.sync(working / "vectors")
            disk.rename(working / "vectors", out)
            sync_name(out)
        finally:
            discard(working)
    return total


def _rows(contents: Contents) -> Iterator[tuple[str, str, str, str, int, int, str]]:
    """The columns of each passage before its embedding."""
    for document in contents.documents():
        metadata = json.dumps(document.metadata, ensure_ascii=False)
        passage: Passage
        for passage in contents.split(document):
            yield (
                passage.passage_id, document.document_id, document.title, passage.text,
                passage.start, passage.end, metadata,
            )  # fmt: skip
