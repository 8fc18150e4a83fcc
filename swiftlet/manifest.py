"""The manifest of an artefact: its kind, its origin, and the hash of each of its files."""

import errno
import hashlib
import json
import os
import stat
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from blake3 import blake3

from swiftlet import disk
from swiftlet.details import NEEDED_FILES, check_fields
from swiftlet.errors import (
    ArtefactError,
    CorruptArtefactError,
    EmbeddingSpaceMismatch,
    ManifestError,
    shown,
)
from swiftlet.publication import sync_name

FORMAT_VERSION = 3
"""The format that this Swiftlet writes, and the newest that it reads."""

CHANGEABLE_FORMAT_VERSION = 2
"""Before, an index could not be changed."""

METRIC, L2 = "inner_product", "l2"
METRICS = (METRIC, L2)
"""How embeddings are compared: by their inner product, which is the cosine of normalised ones; or
by their squared distance."""

FILE_NAME = "manifest.json"
_OF_MODELS = ("config.json", "modules.json")

_HASHES: Mapping[str, Any] = {"blake3": blake3, "sha256": hashlib.sha256}
_BLOCK_BYTES = 1 << 20
_MOST_BYTES = 1 << 24
_MOST_LEVELS = 32
_OF_THE_PROCESS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""What keeps a process from reading a file that is whole."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """The hash of a file in hexadecimal and its size in bytes.

    `algorithm` is "blake3", or "sha256" in manifests before format version 3.
    """

    algorithm: str
    digest: str
    size_bytes: int

    @classmethod
    def of(cls, path: Path, algorithm: str = "blake3") -> "FileEntry":
        """Read the file and hash it.

        :raises OSError: When it cannot be read.
        """
        *_, whole = cls.of_beginnings(path, algorithm)
        return whole

    @classmethod
    def of_beginnings(cls, path: Path, algorithm: str) -> Iterator["FileEntry"]:
        """Read the file and hash it, with a pause after each megabyte; the last one is whole.

        :raises OSError: When it cannot be read.
        """
        found, block, count = _HASHES[algorithm](), memoryview(bytearray(_BLOCK_BYTES)), 1
        with path.open("rb", buffering=0) as file:
            while count:
                count = file.readinto(block)
                found.update(block[:count])
                yield cls(algorithm, found.hexdigest(), file.tell())

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> "FileEntry":
        """The entry of a manifest.

        :raises ValueError: When it is none.
        """
        size_bytes = fields.get("size_bytes")
        for algorithm in _HASHES:
            if fields.keys() == {algorithm, "size_bytes"} and type(size_bytes) is int:
                return cls(algorithm, fields[algorithm], size_bytes)
        raise ValueError(f"{shown(fields)} is not the hash and the size of a file")

    def fields(self) -> dict[str, Any]:
        """The entry as the manifest has it."""
        return {self.algorithm: self.digest, "size_bytes": self.size_bytes}


@dataclass(frozen=True, repr=False)
class Manifest:
    """The description of an artefact directory.

    `kind` is "encoder", "reranker", "index", "shard" (a part of a corpus, encoded), "model" (the
    result of training) or "checkpoint" (from which a run resumes). The names of
    `files` are relative to the directory. `embedding_space` is the fingerprint of the document
    encoder that defines the space. Embeddings that are `normalised` have the length 1, also those
    of queries. `details` are the fields of this kind alone.
    """

    kind: str
    dim: int
    embedding_space: str
    files: Mapping[str, FileEntry]
    created_by: str
    metric: str = METRIC
    normalised: bool = True
    format_version: int = FORMAT_VERSION
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> "Manifest":
        """The manifest with these fields, as a file or a server has them.

        :raises ValueError: When they are not those of a manifest of its kind.
        """
        check_fields(fields)
        files = {name: FileEntry.parse(entry) for name, entry in fields["files"].items()}
        return cls(**{**fields, "files": files})

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the whole artefact: it includes the hash of every file."""
        return _checksum(self.fields())

    @property
    def short_fingerprint(self) -> str:
        """The first 16 characters of the fingerprint, which name the artefact in answers."""
        return self.fingerprint[:16]

    @property
    def vectors(self) -> int:
        """How many vectors a document encoder gives a text, or an index keeps of a passage."""
        return int(self.details.get("vectors", 1))

    @property
    def width(self) -> int:
        """How many numbers an embedding of documents has: all vectors, one after the other."""
        return self.dim * self.vectors

    @property
    def content(self) -> str:
        """A hash of the files alone; `change_details` keeps it."""
        return _checksum(self._file_fields())

    def check_listed(self, directory: Path, *names: str) -> None:
        """Refuse to read files that are not verified, because the manifest does not list them.

        :raises ManifestError: When one is not listed; names it.
        """
        if unlisted := [name for name in names if name not in self.files]:
            raise ManifestError(
                f"{directory / FILE_NAME} does not list {unlisted[0]}, so that it cannot be "
                "verified: restore it from a copy, or make the artefact again"
            )

    def fields(self) -> dict[str, Any]:
        """What the file has, without its checksum."""
        return {**asdict(self), "files": self._file_fields()}

    def _file_fields(self) -> dict[str, Any]:
        return {name: entry.fields() for name, entry in self.files.items()}

    def __repr__(self) -> str:
        shown = {"kind": self.kind, "dim": self.dim, **self.details}
        fields = (
            f"{name}={value!r}"
            for name, value in shown.items()
            if isinstance(value, str | int) and name != "encoder_fingerprint"
        )
        return f"Manifest({', '.join(fields)})"


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write `manifest` into `directory`, atomically; call it last, when all files are in place.

    It is on the disk when this returns. In a published directory, hold its `writer_lock`.

    :raises StorageError: When the file system refuses.
    :raises UnfinishedWriteError: When it refuses only to sync the new name.
    """
    written = directory / f".{FILE_NAME}.partial"
    with disk.storage_errors(directory):
        try:
            with disk.opened(written) as file:
                file.write(_serialise(manifest.fields()))
                disk.sync(file)
            disk.rename(written, directory / FILE_NAME)
        except BaseException:
            with suppress(OSError):
                disk.remove(written)
            raise
        sync_name(directory / FILE_NAME)


def change_details(directory: Path, changes: Mapping[str, Any]) -> None:
    """Change some details in the manifest of an artefact; hold its `writer_lock` meanwhile.

    :raises ManifestError: As `read_manifest`.
    :raises StorageError: When the file system refuses.
    """
    manifest = read_manifest(directory)
    write_manifest(directory, replace(manifest, details={**manifest.details, **changes}))


def describe_files(directory: Path, names: Sequence[str]) -> dict[str, FileEntry]:
    """Hash the files `names` of `directory` for its manifest."""
    return {name: FileEntry.of(directory / name) for name in sorted(names)}


def read_manifest(directory: Path, kind: str | None = None) -> Manifest:
    """Read the manifest of `directory`, without looking at the other files.

    :raises ManifestError: When it is missing, altered, of a newer format or not of this `kind`.
    """
    path = directory / FILE_NAME
    if not directory.is_dir():
        is_of_hub = kind == "encoder" and len(directory.parts) == 2 and not directory.is_absolute()
        way_out = f"; swiftlet export {directory} --out ENCODER makes one of a model" * is_of_hub
        if kind == "index":
            way_out = f"; swiftlet index CORPUS --out {directory} makes an index"
        if kind == "encoder" and directory.suffix == ".npy":
            way_out = ", but embeddings of queries; swiftlet compare takes such a file"
        raise ManifestError(f"{directory} is not a directory{way_out}")
    try:
        status = path.stat()
        _check_is_file(status, ManifestError(f"{path} is no regular file"))
        if status.st_size > _MOST_BYTES:
            raise ManifestError(
                f"{path} has {status.st_size:,} bytes, but a manifest has at most {_MOST_BYTES:,}: "
                "it is damaged"
            )
        content = path.read_bytes()
    except FileNotFoundError:
        way_out = ""
        if kind == "index":
            way_out = f"; swiftlet index {directory} --out INDEX makes an index of its files"
        elif kind == "encoder" and any((directory / name).exists() for name in _OF_MODELS):
            way_out = f"; swiftlet export {directory} --out ENCODER makes one of a model"
        raise ManifestError(f"{directory} has no {FILE_NAME}: it is no artefact{way_out}") from None
    except OSError as error:
        raise ManifestError(f"{path} cannot be read: {error.strerror}") from error
    manifest = _parse(path, content)
    if kind is not None and manifest.kind != kind:
        way_out = ""
        if (manifest.kind, kind) == ("shard", "index"):
            way_out = "; swiftlet index --from-shards SHARDS --out INDEX makes one of all shards"
        elif manifest.kind == "model":
            exported = (file.parent for file in sorted(directory.glob(f"*/*/{FILE_NAME}")))
            of_kind = [f"{each}" for each in exported if read_manifest(each).kind == kind]
            way_out = f": take {' or '.join(of_kind)} of this training run" if of_kind else ""
        raise ManifestError(
            f"{directory} is of kind {manifest.kind!r}, but {kind!r} is needed{way_out}"
        )
    return manifest


def verify_files(directory: Path, manifest: Manifest) -> None:
    """Compare every file with its entry in `manifest`.

    :raises CorruptArtefactError: When a file is missing, unreadable or different; names it.
    :raises ArtefactError: When this process has too few descriptors, or too little memory.
    """
    deque(verification(directory, manifest), maxlen=0)


def verification(directory: Path, manifest: Manifest) -> Iterator[None]:
    """`verify_files`, with a pause after each megabyte."""
    way_out = f"restore {directory} from a copy, or make it again"
    for name, expected in manifest.files.items():
        path = directory / name
        try:
            status = path.stat()
            _check_is_file(status, CorruptArtefactError(f"{path} is no regular file"))
            size_bytes = status.st_size
            if size_bytes != expected.size_bytes:
                raise CorruptArtefactError(
                    f"{path} has {size_bytes} bytes, but its manifest lists "
                    f"{expected.size_bytes}: {way_out}"
                )
            for found in FileEntry.of_beginnings(path, expected.algorithm):  # noqa: B007
                yield
        except FileNotFoundError:
            raise CorruptArtefactError(f"{path} is missing: {way_out}") from None
        except OSError as error:
            kind = ArtefactError if error.errno in _OF_THE_PROCESS else CorruptArtefactError
            raise kind(f"{path} cannot be read: {error.strerror}") from error
        if found != expected:
            raise CorruptArtefactError(
                f"{path} has been altered: its hash is not its manifest's; {way_out}"
            )


def load_manifest(directory: Path, kind: str) -> Manifest:
    """Read the manifest of `directory` and verify every file it lists.

    :raises ManifestError: As `read_manifest`, or when it does not list what this kind has.
    :raises CorruptArtefactError: As `verify_files`.
    """
    manifest = read_manifest(directory, kind)
    manifest.check_listed(directory, *NEEDED_FILES.get(kind, ()))
    verify_files(directory, manifest)
    return manifest


def check_embedding_spaces(encoder: Manifest, index: Manifest) -> None:
    """Refuse an encoder of another embedding space: its results would be random.

    :raises EmbeddingSpaceMismatch: When their embedding spaces or dimensions differ, or the encoder
        gives a text several vectors.
    """
    name = f"the query encoder {encoder.details.get('name', '')!r}"
    if encoder.vectors > 1:
        raise EmbeddingSpaceMismatch(
            f"{name} gives a text {encoder.vectors} vectors, which is for documents; a query has "
            "one: name the query encoder that was trained with it"
        )
    check_embedding_space(name, encoder.embedding_space, encoder.dim, index)


def check_embedding_space(name: str, embedding_space: str, dim: int, index: Manifest) -> None:
    """Refuse another embedding space than the index has; `name` is the subject of the error.

    :raises EmbeddingSpaceMismatch: When the embedding spaces or the dimensions differ.
    """
    by = index.details.get("encoder", index.details.get("name", ""))
    made = f" (by the encoder {by!r})" if by else ""
    if dim != index.dim:
        raise EmbeddingSpaceMismatch(
            f"{name} gives {dim} numbers, the index has {index.dim}{made}: name one that is "
            "trained for this space"
        )
    if embedding_space != index.embedding_space:
        raise EmbeddingSpaceMismatch(
            f"{name} is of the embedding space {embedding_space[:12]}, but the documents are in "
            f"{index.embedding_space[:12]}{made}: name one that is trained for this space"
        )


def file_of(directory: Path, name: str) -> Path:
    """The path of a file of an artefact, without links.

    :raises CorruptArtefactError: When a link leads out of the directory.
    """
    found = (directory / name).resolve()
    if not found.is_relative_to(directory.resolve()):
        raise CorruptArtefactError(
            f"{directory / name} is a link to {found}, which is no part of the artefact: put the "
            "file itself in its place"
        )
    return found


def _check_is_file(status: os.stat_result, error: ArtefactError) -> None:
    # Reading a pipe or a device may never end.
    if not stat.S_ISREG(status.st_mode):
        raise error


def _checksum(fields: Mapping[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _serialise(fields: Mapping[str, Any]) -> bytes:
    signed = {**fields, "checksum": _checksum(fields)}
    return (json.dumps(signed, indent=2, sort_keys=True, ensure_ascii=True) + "\n").encode()


def _parse(path: Path, content: bytes) -> Manifest:
    try:
        fields = json.loads(content, parse_constant=_refuse_constant)
        json.dumps(fields, ensure_ascii=False).encode()  # refused with half of a character
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{path} is not valid JSON: {error}") from error
    version = fields.get("format_version") if isinstance(fields, dict) else None
    if type(version) is not int:
        raise ManifestError(f"{path} has no format_version")
    # Before the checksum: a newer format may compute it in another way.
    if version > FORMAT_VERSION:
        raise ManifestError(
            f"{path} has format_version {shown(version)}, but this Swiftlet reads up to "
            f"{FORMAT_VERSION}: upgrade Swiftlet"
        )
    # Each level is indented, and a text has no line ends.
    if b"\n" + b"  " * _MOST_LEVELS in content:
        raise ManifestError(f"{path} is nested over {_MOST_LEVELS} levels deep: it is no manifest")
    fields.pop("checksum", None)
    # Compared byte for byte, so that any altered byte is found, even white space.
    try:
        is_same = _serialise(fields) == content
    except RecursionError:  # only another program nests without indenting
        is_same = False
    if not is_same:
        raise ManifestError(f"{path} has been altered: its checksum does not match its content")
    try:
        manifest = Manifest.parse(fields)
    except ValueError as error:
        raise ManifestError(f"{path} does not have the fields of a manifest: {error}") from error
    if manifest.metric not in METRICS:
        raise ManifestError(
            f"{path} has metric {shown(manifest.metric)}, but {' or '.join(METRICS)} is expected"
        )
    if manifest.kind != "index" and (manifest.metric != METRIC or not manifest.normalised):
        raise ManifestError(
            f"{path} is of kind {manifest.kind!r}, which knows only {METRIC!r} of normalised "
            "embeddings"
        )
    if elsewhere := [name for name in manifest.files if not _is_within(name)]:
        raise ManifestError(f"{path} lists {elsewhere[0]!r}, which is no file of its directory")
    return manifest


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _is_within(name: str) -> bool:
    parts = name.split("/")
    return "\0" not in name and not {"", ".", ".."} & set(parts)
