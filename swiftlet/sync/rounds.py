"""Brings an index in step with a folder, a round at a time.

The index itself says what is in it: each document keeps the hash of the file that it was read from,
so a round after a crash, a merge or a restored snapshot finds what is left to do.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, sleep, time_ns

from blake3 import blake3

from swiftlet.corpora.files.documents import MODIFIED, moment_of
from swiftlet.corpora.lines import LONGEST_BYTES
from swiftlet.errors import CollectionError, InvalidArgumentError, RetrievalError
from swiftlet.index.updates.directory_writer import IndexWriter
from swiftlet.index.updates.writer import BATCH_DOCUMENTS, KnownPassages
from swiftlet.progress import Progress, Silence
from swiftlet.sync.ahead import ReadAhead, read_one
from swiftlet.sync.folder import Folder, Look, Stamp, is_read, printable
from swiftlet.sync.seen import SeenFiles
from swiftlet.types import Document

FILE_HASH = "file_hash"
"""The field of the metadata with the hash of the file that a document was read from."""

_SETTLED_NS = 1_000_000_000
_SECONDS_BETWEEN_LOOKS = 0.5
_FEW_FILES = 10
_PATIENCE_SECONDS = 10.0
_PATIENCE_BYTES_PER_SECOND = 100_000
_AND_MORE = "+"
"""After the hash of a file that went on changing: no hash is equal, so it is read again."""
_BLOCK_BYTES = 1 << 20


class OtherFolderError(RetrievalError):
    """A folder has none of the files that its index has."""


@dataclass(slots=True)
class Round:
    """What a round has done: files that were put and deleted, and their passages.

    `waiting` are files that were being written. Each of `problems` is a sentence. `is_whole` tells
    that it has looked at all files.
    """

    num_put: int = 0
    num_deleted: int = 0
    num_encoded: int = 0
    num_reused: int = 0
    waiting: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    is_whole: bool = field(default=False, compare=False)


class FolderReader:
    """Reads the files of a folder as documents, and remembers what they were."""

    def __init__(self, folder: Folder, seen: SeenFiles) -> None:
        self.folder, self.seen = folder, seen
        self._growing: dict[str, tuple[Stamp, float]] = {}
        """Files that go on changing: as each was, and when it is to be read as it is."""

    def hashes(self, look: Look, done: Round) -> Iterator[tuple[str, Stamp, str, str | None, bool]]:
        """The hash of each file of a look, why it had no documents before, and whether it is new.

        A file is new with another stamp, too.
        """
        new = []
        for name, stamp in look.files.items():
            known = self.seen.find(name, stamp)
            if known is None:
                new.append((name, stamp))
            else:
                if known[1]:
                    done.problems.append(known[1])
                yield name, stamp, *known, False
        for name, stamp in self._settled(new, done):
            path = self.folder.path / name
            if stamp.size_bytes > LONGEST_BYTES:
                yield name, stamp, f"{stamp.size_bytes} bytes", None, True  # `read` refuses it
                continue
            try:
                found = _hash(path)
            except OSError as error:
                if self.folder.stamp(name) is None:  # it has just gone
                    done.waiting.append(name)
                else:
                    problem = f"{printable(path)} cannot be read: {error.strerror}"
                    done.problems.append(problem)
                continue
            now = monotonic()
            _, due = self._growing.pop(name, (stamp, now + _patience(stamp)))
            if self.folder.stamp(name) == stamp:
                yield name, stamp, found, None, True
            elif due <= now:
                yield name, stamp, found + _AND_MORE, None, True
            else:
                self._growing[name] = stamp, due
                done.waiting.append(name)

    def _settled(self, new: list[tuple[str, Stamp]], done: Round) -> list[tuple[str, Stamp]]:
        """The files that are not being written, after a moment; those that go on changing wait."""
        now, settled = monotonic(), []
        for name, stamp in new:
            earlier, due = self._growing.get(name, (stamp, 0.0))
            if earlier != stamp and now < due:
                self._growing[name] = stamp, due
                done.waiting.append(name)
            else:
                settled.append((name, stamp))
        clock = time_ns()
        if any(abs(clock - stamp.modified_ns) < _SETTLED_NS for _, stamp in settled):
            sleep(_SECONDS_BETWEEN_LOOKS)
        return settled

    def read(
        self, name: str, stamp: Stamp, found: str, done: Round, ahead: ReadAhead | None = None
    ) -> tuple[list[Document], str | None] | None:
        """The documents of a file, and why it has none; None if it is to be read again.

        So is a file that has changed meanwhile, and one that the system does not give.
        """
        read = (ahead and ahead.take()) or read_one(self.folder.path, name, stamp.size_bytes)
        now = self.folder.stamp(name)
        if read.failed and now is not None:  # it has not just gone
            done.problems += filter(None, [read.problem])
            return None
        is_whole = now == stamp
        if not is_whole and (read.problem or not found.endswith(_AND_MORE)):
            done.waiting.append(name)
            return None
        done.problems += [*read.messages, *filter(None, [read.problem])]
        hashed = [
            replace(each, metadata={**each.metadata, FILE_HASH: found}) for each in read.documents
        ]
        return hashed, read.problem

    def documents(self, done: Round, ahead: ReadAhead | None = None) -> Iterator[Document]:
        """All documents of the folder, the newest files first, for a build.

        :param ahead: Reads the files beside this process.
        :raises FolderGoneError: When the folder is not there.
        :raises InvalidArgumentError: When it has no file that can be read.
        """
        look = self.folder.look()
        done.problems += look.sentences
        found = [each for each in self.hashes(look, done) if not each[3]]
        found.sort(key=lambda each: -each[1].modified_ns)
        if ahead is not None:
            ahead.ask([(name, stamp.size_bytes) for name, stamp, *_ in found])
        noted = list[tuple[str, Stamp, str, str | None]]()
        for name, stamp, digest, *_ in found:
            read = self.read(name, stamp, digest, done, ahead)
            if read is not None:
                noted.append((name, stamp, digest, read[1]))
                done.num_put += bool(read[0])
                yield from read[0]
            if len(noted) >= BATCH_DOCUMENTS:
                self.seen.note(noted)
                noted = []
        self.seen.note(noted)
        if not done.num_put:
            raise InvalidArgumentError(
                f"{self.folder.path} has no file that can be read: put one into it first"
            )


class FolderSync:
    """Follows a folder in an index. Not thread-safe; nothing else may write to the index."""

    def __init__(self, reader: FolderReader, writer: IndexWriter) -> None:
        """Read from `writer` what the index has."""
        self._reader, self.writer = reader, writer
        self._files: dict[str, tuple[str | None, tuple[str, ...]]] = {}
        """The hash and the ids of the documents in the index, by the path of their file.

        The hash is empty where a file was put in part, and None where no sync has put it.
        """
        for document_id, found, name in writer.values(FILE_HASH):
            earlier, ids = self._files.get(name, (found, ()))
            self._files[name] = (found if found == earlier else "", (*ids, document_id))
        self._modified = {name: value for _, value, name in writer.values(MODIFIED)}

    @property
    def folder(self) -> Folder:
        """What is followed."""
        return self._reader.folder

    def round(
        self,
        names: Sequence[str] | None = None,
        *,
        progress: Progress | None = None,
    ) -> Round:
        """Put the files that are new or changed, and delete the documents of those that have gone.

        :param names: Paths below the folder that may have changed; None looks at all.
        :raises FolderGoneError: When the folder is not there; nothing is deleted then.
        :raises OtherFolderError: When none of the files of the index is there any more.
        :raises RetrievalError: When the index cannot be written; what was written stays, and the
            next round goes on.
        """
        done = Round()
        look = self.folder.look(names if names is not None else ("",))
        if names is not None and look.has_links:
            names, look = None, self.folder.look()
        done.is_whole = names is None
        done.problems += look.sentences if done.is_whole else look.problems
        changed, seen = dict[str, tuple[Stamp, str]](), []
        for name, stamp, found, problem, is_new in self._reader.hashes(look, done):
            is_same = self._files.get(name, ("", ()))[0] == found
            is_same &= self._modified.get(name) == moment_of(stamp.modified_ns)
            if (problem and name not in self._files) or (found and is_same):
                if is_new:
                    seen.append((name, stamp, found, problem))
            else:
                changed[name] = stamp, found
        self._reader.seen.note(seen)
        gone = self._gone(names, look)
        hashes = {found for _, found in changed.values()}
        is_moved = any(self._files[name][0] in hashes for name in gone)
        is_other = len(gone) > _FEW_FILES and not is_moved and not {*look.files} & {*self._files}
        if names is None and is_other:
            raise OtherFolderError(
                f"{self.folder.path} has none of the {len(gone):,} files that {self.writer.place} "
                "follows, so nothing is deleted: it may be another folder, or not mounted; to "
                "begin anew, remove the index"
            )
        known = self.writer.known_passages(self._sources(changed, gone))
        self._put(changed, known, done, progress or Silence())
        # Last, so that the passages of a file that was moved are still known.
        self.writer.delete(each for name in gone for each in self._files[name][1])
        for name in gone:
            del self._files[name]
        self._reader.seen.forget(gone)
        done.num_deleted += len(gone)
        done.num_encoded, done.num_reused = known.num_encoded, known.num_reused
        return done

    def _gone(self, names: Sequence[str] | None, look: Look) -> list[str]:
        """Files of the index that are not there; those of which nothing is known stay."""
        unknown, wanted = {*look.unknown}, {*names} if names is not None else {""}
        # Nothing is below a file, so an edit walks no other files of the index.
        known = wanted if wanted <= self._files.keys() else self._files
        return [
            name
            for name in known
            if self._files[name][0] is not None
            and name not in look.files
            and _is_below(name, wanted)
            and not _is_below(name, unknown)
            and (is_read(name) or self.folder.stamp(name) is None)
        ]

    def _sources(
        self, changed: Mapping[str, tuple[Stamp, str]], gone: Iterable[str]
    ) -> Iterator[str]:
        """The ids of documents that may have passages of changed files: earlier, moved, copied."""
        names, hashes = {*changed, *gone}, {found for _, found in changed.values()}
        for name, (found, ids) in self._files.items():
            if name in names or found in hashes:
                yield from ids

    def _put(
        self,
        changed: Mapping[str, tuple[Stamp, str]],
        known: KnownPassages,
        done: Round,
        progress: Progress,
    ) -> None:
        if changed:
            progress.begin("Putting files", len(changed))
        batch = dict[str, tuple[list[Document], str | None]]()
        newest_first = sorted(changed, key=lambda name: -changed[name][0].modified_ns)
        for number, name in enumerate(newest_first, 1):
            stamp, found = changed[name]
            read = self._reader.read(name, stamp, found, done)
            if read is not None:
                batch[name] = read
            waiting = sum(len(documents) for documents, _ in batch.values())
            if waiting >= BATCH_DOCUMENTS or number == len(changed):
                self._write(batch, changed, known, done)
                batch = {}
            progress.advance(1)

    def _write(
        self,
        batch: dict[str, tuple[list[Document], str | None]],
        changed: Mapping[str, tuple[Stamp, str]],
        known: KnownPassages,
        done: Round,
    ) -> None:
        """Write the documents of whole files, and delete those that the files had before."""
        documents = [each for found, _ in batch.values() for each in found]
        try:
            if documents:
                self.writer.put(documents, known=known, batch_documents=len(documents))
        except CollectionError as error:
            if len(batch) > 1:  # the other files are put without the bad one
                for name, found in batch.items():
                    self._write({name: found}, changed, known, done)
                return
            problem = printable(f"{self.folder.path / next(iter(batch))}: {error.problem}")
            done.problems.append(problem)
            batch = dict.fromkeys(batch, ([], problem))
        stale, notes = list[str](), []
        for name, (read, reason) in batch.items():
            ids = tuple(each.document_id for each in read)
            _, earlier = self._files.pop(name, ("", ()))
            stale += {*earlier}.difference(ids)
            stamp, digest = changed[name]
            if ids:
                self._files[name] = digest, ids
                self._modified[name] = read[0].metadata.get(MODIFIED)
            notes.append((name, stamp, digest, reason))
            done.num_put += bool(ids)
            done.num_deleted += bool(earlier and not ids)
        self.writer.delete(stale)
        self._reader.seen.note(notes)


def _is_below(name: str, folders: set[str]) -> bool:
    while name not in folders:
        if not name:
            return False
        name = name.rpartition("/")[0]
    return True


def _patience(stamp: Stamp) -> float:
    """The seconds after which a file is read that goes on changing."""
    return max(_PATIENCE_SECONDS, stamp.size_bytes / _PATIENCE_BYTES_PER_SECOND)


def _hash(path: Path) -> str:
    found = blake3()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            found.update(block)
    return found.hexdigest(16)
