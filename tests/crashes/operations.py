"""What Swiftlet does to files, operation by operation, and what each artefact has afterwards."""

import io
import os
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import anyio
import pyarrow
import pyarrow.parquet
from mcp.server.mcpserver.exceptions import ToolError

from swiftlet import disk
from swiftlet.corpora.lines import SkippedLines
from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.encoders.reranker import OnnxReranker
from swiftlet.errors import CorruptIndexError, RetrievalError
from swiftlet.evaluation.weight import reset_weight
from swiftlet.index.building.adopt import adopt
from swiftlet.index.building.build import build_index
from swiftlet.index.changes.last import LAST_FILE
from swiftlet.index.changes.log import CHANGES_FILE
from swiftlet.index.directory import documents
from swiftlet.index.repair import repair
from swiftlet.index.snapshot import snapshot
from swiftlet.index.updates.directory_writer import IndexWriter
from swiftlet.index.updates.merge import merge_changes
from swiftlet.index.vectors_export import export_vectors
from swiftlet.integrations.mcp import mcp_server
from swiftlet.manifest import (
    Manifest,
    change_details,
    describe_files,
    load_manifest,
    write_manifest,
)
from swiftlet.publication import flush, published, writer_lock
from swiftlet.search.searcher import Searcher
from swiftlet.sync.folder import Folder
from swiftlet.sync.rounds import FolderReader, FolderSync
from swiftlet.sync.seen import SeenFiles
from swiftlet.types import Document
from tests.artefacts.answers import FOLDER as ARTEFACTS

# An encoder is read only, and reading it takes most of the time of a small build.
OnnxEncoder.load = cache(OnnxEncoder.load)  # type: ignore[method-assign]

Texts = Mapping[str, str]
State = Mapping[str, Texts]
"""The texts of the documents of each artefact, by its name; one that is not there has no entry."""

INDEX, BUILT, MODEL, TAR = "index", "folder/built", "model", "snapshot.tar"
KEPT, VECTORS, ADOPTED = "index.damaged", "vectors.parquet", "adopted"
"""What a repair keeps, the file of `swiftlet export-vectors`, and the index that adopts it."""

SEEN = f".{INDEX}.files"
"""What a sync keeps beside the index."""

DAMAGED = "damaged"
"""The id in the state of a damaged index; the other ones are those that a repair saves."""

_MOST = 1000
_CORPUS, _RERANKER, _FOLDER = "corpus", "reranker", "followed"
_FOLLOWED = {"one.txt": "the text of a file that is followed", "b/two.txt": "the text of another"}
_SPOILT = "the text that is spoilt"


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
    """One thing that Swiftlet is asked to do; `changes` gives the artefacts that it makes new.

    `between` gives those that may be there if it does not end. One that `is_staged` only prepares
    the next one, and no fault strikes it.
    """

    name: str
    run: Callable[[Place], object]
    changes: Callable[[State], Mapping[str, Texts]]
    between: Callable[[State], Sequence[Mapping[str, Texts]]] = lambda _: ()
    is_staged: bool = False

    def after(self, state: State) -> State:
        """What there is when the operation has succeeded."""
        return {**state, **self.changes(state)}

    def before_end(self, state: State) -> list[State]:
        """What there may be when it has not succeeded."""
        return [state, *({**state, **each} for each in self.between(state))]


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
    """Write a weight, and the one that ships again, as `swiftlet tune` does at its end."""
    place.close()
    with writer_lock(place.index):
        change_details(place.index, {"weight": 0.25})
    reset_weight(place.index)


def _stage(place: Place) -> None:
    """A corpus of files of several kinds, a folder to follow, and a re-ranker."""
    corpus = place.root / _CORPUS
    corpus.mkdir()
    (corpus / "page.pdf").write_bytes(_pdf("the text of a page"))
    (corpus / "plain.txt").write_text("the text of a file")
    rows = {"id": ["0", "row"], "text": ["the text of another row", "the text of a row"]}
    pyarrow.parquet.write_table(pyarrow.table(rows), corpus / "rows.parquet")
    shutil.copytree(ARTEFACTS / _RERANKER, place.root / _RERANKER)
    folder = place.root / _FOLDER
    for name, text in _FOLLOWED.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        os.utime(folder / name, (0, 0))  # sync waits for files that are being written
    for path in (corpus, folder, place.root / _RERANKER):
        flush(path)
    disk.sync(place.root)


def _pdf(text: str) -> bytes:
    """A PDF of one page."""
    stream = f"BT /F 20 Tf 20 20 Td ({text}) Tj ET"
    page = "/Type /Page /Parent 2 0 R /MediaBox [0 0 400 99] /Contents 4 0 R"
    parts = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< {page} /Resources << /Font << /F 5 0 R >> >> >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    made, starts = "%PDF-1.4\n", []
    for number, part in enumerate(parts, start=1):
        starts.append(f"{len(made):010} 00000 n \n")
        made += f"{number} 0 obj\n{part}\nendobj\n"
    table = f"xref\n0 6\n0000000000 65535 f \n{''.join(starts)}"
    end = f"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n{len(made)}\n%%EOF\n"
    return f"{made}{table}{end}".encode()


_ADDED = [
    {"corpus/page.pdf#page=1": "the text of a page", "corpus/plain.txt": "the text of a file"},
    {"0": "the text of another row", "row": "the text of a row"},
]
"""What is staged, in the batches in which it is added."""


def _add(place: Place) -> None:
    """As `swiftlet add` does: put a corpus in batches, and merge if searches are then faster."""
    place.close()
    corpus, refused = place.root / _CORPUS, SkippedLines(lines=False, files=False)
    with IndexWriter(place.index, LOOKUP_QUERY_ENCODER, threads=1) as writer:
        sources = [corpus, corpus / "rows.parquet"]
        writer.put(sources, skipped=refused, batch_documents=len(_ADDED[0]))
        if writer.needs_merge:
            with suppress(RetrievalError):  # the changes are written
                writer.compact()


def _export_vectors(place: Place) -> None:
    export_vectors(place.index, place.root / VECTORS, overwrite=True)


def _adopt(place: Place) -> None:
    adopt(place.root / VECTORS, place.root / ADOPTED, overwrite=True)


def _sync(place: Place) -> None:
    """As `swiftlet sync` does: a round over the folder."""
    place.close()
    seen = SeenFiles(place.index, folder := place.root / _FOLDER)
    try:
        reader = FolderReader(Folder(folder), seen)
        with IndexWriter(place.index, LOOKUP_QUERY_ENCODER, threads=1) as writer:
            done = FolderSync(reader, writer).round()
    finally:
        seen.close()
    if done.problems:  # it says them, and the next round goes on
        raise RetrievalError("; ".join(done.problems))


def _serve_tools(place: Place) -> None:
    """Call the tools that language models call."""
    server = mcp_server(place.searcher)
    place.searcher.refresh()
    try:
        for tool, asked in {
            "search": {"query": "text"},
            "get_document": {"document_id": "0"},
        }.items():
            anyio.run(server.call_tool, tool, asked)
    except ToolError as error:
        raise error.__cause__ or error from error


def _rerank(place: Place) -> None:
    OnnxReranker.load(place.root / _RERANKER).score("a query", "a text")


def _spoil(place: Place) -> None:
    """Alter a change as a disk does; another one follows it."""
    place.writer.put([Document("spoilt", _SPOILT)])
    place.writer.put([Document("whole", "the text that is whole")])
    place.close()
    for path in place.index.glob(f"{CHANGES_FILE}*"):
        content = path.read_bytes()
        if (spoilt := content.replace(_SPOILT.encode(), _SPOILT.upper().encode())) != content:
            with path.open("r+b") as file:
                file.write(spoilt)
                disk.sync(file)
    disk.sync(place.index)  # else a log that SQLite has removed may come back
    disk.sync(place.index / LAST_FILE)  # no put syncs it, so power alone may take it back


def _repair(place: Place) -> None:
    place.close()
    repair(place.index)


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
STAGE = Operation("stage", _stage, lambda _: {}, is_staged=True)
ADD = Operation(
    "add",
    _add,
    lambda state: {INDEX: {**state[INDEX], **_ADDED[0], **_ADDED[1]}},
    lambda state: [{INDEX: {**state[INDEX], **_ADDED[0]}}],
)
EXPORT_VECTORS = Operation("export-vectors", _export_vectors, lambda state: {VECTORS: state[INDEX]})
ADOPT = Operation("adopt", _adopt, lambda state: {ADOPTED: state[VECTORS]})
SYNC = Operation(
    "sync",
    _sync,
    lambda state: {INDEX: {**state[INDEX], **_FOLLOWED}},
    lambda state: [  # without a file that could not be read; or it fails after the last write
        *({INDEX: {**state[INDEX], name: text}} for name, text in _FOLLOWED.items()),
        {INDEX: {**state[INDEX], **_FOLLOWED}},
    ],
)
SERVE_TOOLS = Operation("tools of mcp", _serve_tools, lambda _: {})
RERANK = Operation("re-ranker", _rerank, lambda _: {})
SPOIL = Operation(
    "spoil",
    _spoil,
    lambda state: {INDEX: {**state[INDEX], "whole": "the text that is whole", DAMAGED: ""}},
    is_staged=True,
)
REPAIR = Operation(
    "repair",
    _repair,
    lambda state: {INDEX: _saved(state[INDEX]), KEPT: state[INDEX]},
    lambda state: [{KEPT: _saved(state[INDEX])}],  # until the two are exchanged
)


def _saved(damaged: Texts) -> Texts:
    return {each: text for each, text in damaged.items() if each != DAMAGED}


def found(root: Path, *, search: bool = True) -> State:
    """What there is, read as a user would; every file is verified.

    :param search: Whether indexes are also searched, which takes most of the time.

    :raises RetrievalError: When an artefact does not open.
    """
    state: dict[str, Texts] = {}
    for name in (INDEX, BUILT, KEPT):
        if (index := root / name).exists():
            state[name] = _texts_or_saved(index)
            if not search or DAMAGED in state[name]:
                continue
            with Searcher.open(index, LOOKUP_QUERY_ENCODER) as searcher:
                assert ids_of(searcher) == state[name].keys()
    if (adopted := root / ADOPTED).exists():
        state[ADOPTED] = texts_of(adopted)
    if (model := root / MODEL).exists():
        load_manifest(model, "model")
        state[MODEL] = {"weights": (model / "weights").read_text()}
    if (tar := root / TAR).exists():
        state[TAR] = _texts_of_archive(tar.read_bytes())
    if (vectors := root / VECTORS).exists():
        state[VECTORS] = _texts_of_vectors(vectors.read_bytes())
    return state


def _texts_or_saved(index: Path) -> Texts:
    """The texts of an index; if it is damaged, those that a repair of a copy saves."""
    try:
        return texts_of(index)
    except CorruptIndexError as error:
        if "swiftlet repair" not in f"{error}":
            raise
    with TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(index, Path(folder, INDEX)))
        repair(copy)
        return {**texts_of(copy), DAMAGED: ""}


@lru_cache(maxsize=4)
def _texts_of_vectors(content: bytes) -> Texts:
    rows = pyarrow.parquet.read_table(io.BytesIO(content)).to_pylist()
    return {row["document_id"]: row["text"] for row in rows}


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


def recover(root: Path, *, damaged: bool = False, merge: bool = False) -> float:
    """Go on after a crash as the next process does; the seconds until a write is acknowledged.

    :param damaged: Whether it has to repair the index first.
    """
    began, place = perf_counter(), Place(root)
    if damaged:
        repair(place.index)
    place.writer.put([Document("later", "the text after the crash")])
    took = perf_counter() - began
    if merge:
        place.writer.compact()
    place.close()
    assert texts_of(place.index)["later"]
    return took
