"""Encodes one part of a corpus into a shard."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import numpy as np

from swiftlet import encoders
from swiftlet.arguments import StrPath, made, path_of
from swiftlet.corpora.lines import SkippedLines
from swiftlet.corpora.rows import Corpus, documents_of
from swiftlet.encoders.encoder import OnnxEncoder, directory_of
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.building.draft import describe, draft
from swiftlet.index.building.embeddings import NewCorpus
from swiftlet.index.building.settings import OPTIONS, BuildSettings
from swiftlet.index.building.shards import EMBEDDINGS_FILE, KIND, Shard
from swiftlet.index.directory import DOCUMENTS_FILE
from swiftlet.index.document_encoder import with_place
from swiftlet.index.documents.writer import write_documents
from swiftlet.manifest import Manifest
from swiftlet.progress import Progress, Silence
from swiftlet.publication import check_target
from swiftlet.types import Document


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
    encoder: StrPath | None = None,
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
    part = _Part(documents_of(corpus, skipped=skipped), Shard(*shard))
    directory = directory_of(encoder) or encoders.DEFAULT_ENCODER
    out = path_of("out", out).resolve()
    check_target(out, overwrite=overwrite, kind=KIND)
    loaded = OnnxEncoder.load(directory, precision=checked.precision, role="passage")
    new = NewCorpus(part, loaded, checked)
    with (
        draft(
            out, KIND, width=loaded.width, encodes=True, overwrite=overwrite, progress=progress
        ) as (artefact, file),
        closing(write_documents(artefact / DOCUMENTS_FILE, part, new, progress)) as stored,
    ):
        new.embed(stored, file, progress)
        rows = file.rows()
        kept = np.lib.format.open_memmap(
            artefact / EMBEDDINGS_FILE, "w+", np.float16 if half else np.float32, rows.shape
        )
        kept[:] = rows
        kept.flush()
        details = {
            **with_place(new.details, directory),
            "number": part.shard.number,
            "of": part.shard.of,
            "corpus": part.corpus,
        }
        files = [DOCUMENTS_FILE, EMBEDDINGS_FILE]
        return describe(artefact, KIND, loaded, files, stored, details)
