"""Shards: parts of a corpus, encoded by several machines, and put together to one index."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from swiftlet import disk, encoders
from swiftlet.arguments import StrPath, made, path_of
from swiftlet.corpora.lines import SkippedLines
from swiftlet.corpora.rows import Corpus, documents_to_encode
from swiftlet.database import connect_read_only
from swiftlet.encoders.function import are_same
from swiftlet.encoders.opening import EncoderSpec, encoder_place, open_encoder
from swiftlet.errors import ArtefactError, InvalidArgumentError
from swiftlet.index.building.draft import describe, draft
from swiftlet.index.building.embeddings import NewCorpus
from swiftlet.index.building.settings import OPTIONS, BuildSettings
from swiftlet.index.building.space import space_of_encoder
from swiftlet.index.contents import EncodedCorpus
from swiftlet.index.document_encoder import with_place
from swiftlet.index.documents.split import SplitDocument, stored_documents
from swiftlet.index.documents.store import DOCUMENTS_FILE
from swiftlet.index.documents.writer import write_documents
from swiftlet.manifest import FILE_NAME as MANIFEST_FILE
from swiftlet.manifest import Manifest, load_manifest, read_manifest
from swiftlet.progress import Progress, Silence
from swiftlet.publication import check_target
from swiftlet.types import Document, Embeddings

KIND = "shard"
EMBEDDINGS_FILE = "embeddings.npy"
_BLOCK_ROWS = 65_536
# What all shards of an index have in common, and how a message calls it.
_SHARED = {
    "encoder_fingerprint": "encoders",
    "precision": "precisions",
    "splitting": "ways to split documents",
    "corpus": "corpora",
    "of": "numbers of shards",
}
_OF_SHARD = {"number", "of", "corpus", "num_documents", "num_passages"}


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard `number` of `of`, from 1: the documents at `number` - 1, + `of`, + 2 `of` …

    :raises InvalidArgumentError: When there is no such shard.
    """

    number: int
    of: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.of:
            raise InvalidArgumentError(
                f"there is no shard {self}: name one of 1/{self.of} to {self.of}/{self.of}"
                if self.of > 0
                else f"there is no shard {self}: name one such as 2/8, the second of eight"
            )

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def has(self, place: int) -> bool:
        """Whether it has the document at `place` of the corpus, from 0."""
        return place % self.of == self.number - 1


class Shards(EncodedCorpus):
    """All shards of a corpus, which `swiftlet.build` takes as a corpus."""

    name = "the shards"

    def __init__(self, directories: Sequence[str | os.PathLike[str]]) -> None:
        """Open shards, or folders of shards, after every file is verified.

        :raises InvalidArgumentError: When there are none, one is missing or there twice, or they
            are not of one corpus, encoder and splitting.
        :raises ArtefactError: When a shard is damaged.
        """
        found: dict[int, tuple[Path, Manifest]] = {}
        for place in _places([path_of("directories", each) for each in directories]):
            manifest = load_manifest(place, KIND)
            first_place, first = next(iter(found.values()), (place, manifest))
            for field, name in _SHARED.items():
                same = manifest.details[field] == first.details[field]
                if field == "encoder_fingerprint":
                    same = are_same(manifest.details, first.details)
                if not same:
                    raise InvalidArgumentError(
                        f"{first_place} and {place} are of different {name}: name shards that were "
                        "encoded alike"
                    )
            number = manifest.details["number"]
            if number in found:
                raise InvalidArgumentError(
                    f"{found[number][0]} and {place} are the same shard: leave one of them out"
                )
            found[number] = place, manifest
        ordered = [found[number] for number in sorted(found)]
        details, of = ordered[0][1].details, ordered[0][1].details["of"]
        if missing := [f"{n}" for n in range(1, of + 1) if n not in found]:
            raise InvalidArgumentError(
                f"of {of} shards, number {', '.join(missing)} "
                f"{'is' if len(missing) == 1 else 'are'} missing: encode or name them, too"
            )
        self.details = {name: value for name, value in details.items() if name not in _OF_SHARD}
        first = ordered[0][1]
        self.dim, self.embedding_space = first.dim, first.embedding_space
        self.num_passages = sum(shard.details["num_passages"] for _, shard in ordered)
        self.identity = " ".join(shard.short_fingerprint for _, shard in ordered)
        self._places = [place for place, _ in ordered]

    @override
    def documents(self) -> Iterator[SplitDocument]:
        stores = [stored_documents(place / DOCUMENTS_FILE) for place in self._places]
        for documents in zip_longest(*stores):
            yield from filter(None, documents)

    @override
    def embeddings(self) -> Iterator[Embeddings]:
        sources = [np.load(place / EMBEDDINGS_FILE, mmap_mode="r") for place in self._places]
        numbers = [_documents_of_passages(place / DOCUMENTS_FILE) for place in self._places]
        places = [own * len(sources) + shard for shard, own in enumerate(numbers)]
        order = np.argsort(np.concatenate(places), kind="stable")
        shards = np.repeat(np.arange(len(sources)), [len(own) for own in numbers])
        rows = np.concatenate([np.arange(len(own)) for own in numbers])
        for start in range(0, len(order), _BLOCK_ROWS):
            taken = order[start : start + _BLOCK_ROWS]
            block = np.empty((len(taken), sources[0].shape[1]), dtype=np.float32)
            for shard, source in enumerate(sources):
                chosen = shards[taken] == shard
                block[chosen] = source[rows[taken][chosen]]
            yield block


def _places(directories: Sequence[Path]) -> list[Path]:
    """The shards among the given directories, and in them."""
    places: list[Path] = []
    for directory in directories:
        if (directory / MANIFEST_FILE).is_file():
            places.append(directory)
        elif directory.is_dir():
            within = [path.parent for path in sorted(directory.glob(f"*/{MANIFEST_FILE}"))]
            places += [path for path in within if _is_shard(path)]
    if not places:
        named = ", ".join(map(str, directories)) or "no folder"
        raise InvalidArgumentError(f"there is no shard in {named}: `swiftlet encode` writes them")
    return places


def _is_shard(place: Path) -> bool:
    try:
        return read_manifest(place).kind == KIND
    except ArtefactError:
        return True  # its errors are told when it is opened


def _documents_of_passages(store: Path) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The place of each passage's document in the store."""
    connection = connect_read_only(store)
    try:
        found = connection.execute("SELECT document FROM passages ORDER BY passage")
        return np.fromiter((number for (number,) in found), dtype=np.int64)
    finally:
        connection.close()


class _Part:
    """The documents of a shard, and a hash of the whole corpus once it has been read."""

    def __init__(self, documents: Iterable[Document], shard: Shard) -> None:
        self._documents, self.shard = documents, shard
        self._hash = hashlib.sha256()
        self.num_documents = 0

    @property
    def corpus(self) -> str:
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[Document]:
        has_some = False
        for place, document in enumerate(self._documents):
            fields = document.document_id, document.title, document.text
            self._hash.update(json.dumps(fields).encode())
            self.num_documents += 1
            if self.shard.has(place):
                has_some = True
                yield document
        if self.num_documents and not has_some:
            raise InvalidArgumentError(
                f"shard {self.shard} has no document, since the corpus has only "
                f"{self.num_documents}: take at most {self.num_documents} shards"
            )


def encode(
    corpus: Corpus,
    out: StrPath,
    *,
    shard: tuple[int, int],
    encoder: EncoderSpec | None = None,
    half: bool = False,
    overwrite: bool = False,
    skipped: SkippedLines | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Manifest:
    """Encode one shard of a corpus into the directory `out`, completely or not at all.

    Other arguments are as in `build`. Several machines can encode the shards of one corpus;
    `build(Shards(directories), …)` makes one index of them. The whole corpus is read, since its
    hash tells whether shards belong together. After an interruption, the embeddings so far are
    reused, as by a build.

    :param shard: (2, 8) for the second of eight: each eighth document, from the second on.
    :param half: Store the embeddings in half precision.
    :param settings: The fields of `BuildSettings` that are not of the index alone.
    :raises RetrievalError: When the corpus, a setting, the encoder or the storage is bad, or the
        shard has no document.
    """
    if given := [name for name in settings if name in OPTIONS and OPTIONS[name].of_index]:
        raise InvalidArgumentError(f"{given[0]} is of the index: give it to build")
    checked, progress = made(BuildSettings, **settings), progress or Silence()
    part = _Part(documents_to_encode(corpus, skipped=skipped), Shard(*shard))
    place = encoder_place(encoder) or encoders.DEFAULT_ENCODER
    out = path_of("out", out).resolve()
    check_target(out, overwrite=overwrite, kind=KIND)
    loaded = open_encoder(place, "passage", precision=checked.precision)
    new = NewCorpus(part, loaded, checked)
    with (
        draft(
            out, KIND, width=loaded.width, encodes=True, overwrite=overwrite, progress=progress
        ) as (artefact, file),
        closing(
            write_documents(artefact / DOCUMENTS_FILE, part, new, progress, headings=True)
        ) as stored,
    ):
        new.embed(stored, file, progress)
        rows = file.rows()
        kept = disk.array(
            artefact / EMBEDDINGS_FILE, np.float16 if half else np.float32, rows.shape
        )
        kept[:] = rows
        kept.flush()
        details = {
            **with_place(new.details, place),
            "number": part.shard.number,
            "of": part.shard.of,
            "corpus": part.corpus,
        }
        files = [DOCUMENTS_FILE, EMBEDDINGS_FILE]
        return describe(artefact, KIND, space_of_encoder(loaded, 1), files, stored, details)
