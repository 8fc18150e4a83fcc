"""What Swiftlet does to files, operation by operation, and what each artefact has afterwards."""

import io
import shutil
import tarfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from swiftlet import disk
from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.index.building.build import build_index
from swiftlet.index.directory import documents
from swiftlet.index.snapshot import snapshot
from swiftlet.index.updates.directory_writer import IndexWriter
from swiftlet.index.updates.merge import merge_changes
from swiftlet.manifest import (
    Manifest,
    change_details,
    describe_files,
    load_manifest,
    write_manifest,
)
from swiftlet.publication import flush, published, writer_lock
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document

# An encoder is read only, and reading it takes most of the time of a small build.
OnnxEncoder.load = cache(OnnxEncoder.load)  # type: ignore[method-assign]

Texts = Mapping[str, str]
State = Mapping[str, Texts]
"""The texts of the documents of each artefact, by its name; one that is not there has no entry."""

INDEX, BUILT, MODEL, TAR = "index", "folder/built", "model", "snapshot.tar"
_MOST = 1000


class Place:
    """A directory with artefacts, and what a program has open there."""

    def __init__(self, root: Path) -> None:
        self.root, self.index = root, root / INDEX
        self._exit = ExitStack()
        self._writer: IndexWriter | None = None
        self._searcher: Searcher | None = None

    @property
    def writer(self) -> IndexWriter:
        """The writer of the index, opened when it is first needed."""
        if self._writer is None:
            opened = IndexWriter(self.index, LOOKUP_QUERY_ENCODER, threads=1)
            self._writer = self._exit.enter_context(opened)
        return self._writer

    @property
    def searcher(self) -> Searcher:
        """A searcher of the index, opened when it is first needed."""
        if self._searcher is None:
            opened = Searcher.open(self.index, LOOKUP_QUERY_ENCODER)
            self._searcher = self._exit.enter_context(opened)
        return self._searcher

    def warm(self) -> None:
        """Open what a service has open, and let the writer have written."""
        if self.index.exists():
            _ = self.searcher
            self.writer.put([Document("warm", "a text")])
            self.writer.delete(["warm"])

    def close(self) -> None:
        """End as a program that ends in order."""
        self._writer = self._searcher = None
        self._exit.close()


@dataclass(frozen=True)
class Operation:
    """One thing that Swiftlet is asked to do; `changes` gives the artefacts that it makes new."""

    name: str
    run: Callable[[Place], object]
    changes: Callable[[State], Mapping[str, Texts]]

    def after(self, state: State) -> State:
        """What there is when the operation has succeeded."""
        return {**state, **self.changes(state)}


def build(where: str, count: int) -> Operation:
    """Build an index, in the place of an earlier one."""
    texts = {f"{number}": f"the built text {number} of {count}" for number in range(count)}

    def run(place: Place) -> None:
        place.close()
        made = [Document(each, text, metadata={"n": each}) for each, text in texts.items()]
        build_index(made, LOOKUP_QUERY_ENCODER, place.root / where, overwrite=True)

    return Operation(f"build {where}", run, lambda _: {where: texts})


def put(texts: Texts, name: str = "put") -> Operation:
    """Add or replace documents of the index."""
    new = [Document(each, text, metadata={"n": 1}) for each, text in texts.items()]
    return Operation(
        name, lambda place: place.writer.put(new), lambda state: {INDEX: {**state[INDEX], **texts}}
    )


def delete(*ids: str) -> Operation:
    """Delete documents of the index."""
    return Operation(
        "delete",
        lambda place: place.writer.delete(ids),
        lambda state: {INDEX: {each: t for each, t in state[INDEX].items() if each not in ids}},
    )


def _merge(place: Place) -> None:
    place.writer.compact()


def merge_with(texts: Texts) -> Operation:
    """Put documents, and merge the changes while the same documents are put again."""
    new = [Document(each, text) for each, text in texts.items()]

    def run(place: Place) -> None:
        def meanwhile(index: Path, artefact: Path, last: int, encoder: Path | None) -> None:
            merge_changes(index, artefact, last, encoder, threads=1)
            place.writer.put(new)

        place.writer.put(new)  # else there might be nothing to merge
        place.writer.compact(merge=meanwhile)

    return Operation("merge beside a put", run, lambda state: {INDEX: {**state[INDEX], **texts}})


def _snapshot(place: Place) -> None:
    snapshot(place.index, place.root / TAR, overwrite=True)


def _restore(place: Place) -> None:
    """As operations.md says: unpack beside the index, sync, and give it the index's name."""
    place.close()
    beside = place.root / "restored"
    shutil.rmtree(beside, ignore_errors=True)
    with tarfile.open(place.root / TAR) as tar:
        tar.extractall(beside, filter="data")
    load_manifest(beside / INDEX, "index")
    flush(beside / INDEX)
    disk.exchange(beside / INDEX, place.index)
    disk.sync(place.root)
    shutil.rmtree(beside)


def _tune(place: Place) -> None:
    place.close()
    with writer_lock(place.index):
        change_details(place.index, {"weight": 0.25})


def publish(text: str) -> Operation:
    """Publish another kind of artefact, as training and export do."""

    def run(place: Place) -> None:
        with published(place.root / MODEL, overwrite=True, kind="model") as folder:
            disk.write(folder / "weights", text)
            files = describe_files(folder, ["weights"])
            write_manifest(folder, Manifest("model", 3, "space", files, "a test"))

    return Operation("publish", run, lambda _: {MODEL: {"weights": text}})


def _reload(place: Place) -> None:
    place.searcher.refresh()
    place.searcher.search("text", _MOST)


MERGE = Operation("merge", _merge, lambda _: {})
SNAPSHOT = Operation("snapshot", _snapshot, lambda state: {TAR: state[INDEX]})
RESTORE = Operation("restore", _restore, lambda state: {INDEX: state[TAR]})
TUNE = Operation("tune", _tune, lambda _: {})
RELOAD = Operation("reload", _reload, lambda _: {})


def found(root: Path, *, search: bool = True) -> State:
    """What there is, read as a user would; every file is verified.

    :param search: Whether indexes are also searched, which takes most of the time.

    :raises RetrievalError: When an artefact does not open.
    """
    state: dict[str, Texts] = {}
    for name in (INDEX, BUILT):
        if (index := root / name).exists():
            state[name] = texts_of(index)
            if not search:
                continue
            with Searcher.open(index, LOOKUP_QUERY_ENCODER) as searcher:
                assert ids_of(searcher) == state[name].keys()
    if (model := root / MODEL).exists():
        load_manifest(model, "model")
        state[MODEL] = {"weights": (model / "weights").read_text()}
    if (tar := root / TAR).exists():
        state[TAR] = _texts_of_archive(tar.read_bytes())
    return state


@lru_cache(maxsize=4)
def _texts_of_archive(content: bytes) -> Texts:
    with TemporaryDirectory() as unpacked, tarfile.open(fileobj=io.BytesIO(content)) as tar:
        tar.extractall(unpacked, filter="data")
        return texts_of(Path(unpacked, INDEX))


def ids_of(searcher: Searcher) -> set[str]:
    """The ids of all documents, as a search finds them."""
    return {hit.document_id for hit in searcher.search("text", _MOST).hits}


def texts_of(index: Path) -> Texts:
    """The texts of all documents of an index."""
    return {each.document_id: each.text for each in documents(index)}


def recover(root: Path, *, merge: bool = False) -> float:
    """Go on after a crash as the next process does; the seconds until a write is acknowledged."""
    began, place = perf_counter(), Place(root)
    place.writer.put([Document("later", "the text after the crash")])
    took = perf_counter() - began
    if merge:
        place.writer.compact()
    place.close()
    assert texts_of(place.index)["later"]
    return took
