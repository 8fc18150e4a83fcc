"""Encodes one part of a corpus into a shard."""

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np

from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.building.build import BuildSettings
from swiftlet.index.building.embeddings import encode_corpus
from swiftlet.index.building.shards import EMBEDDINGS_FILE, KIND, Shard
from swiftlet.index.directory import DOCUMENTS_FILE
from swiftlet.index.document_encoder import with_place
from swiftlet.index.documents.writer import write_documents
from swiftlet.index.vectors.embeddings_file import EmbeddingsFile
from swiftlet.manifest import Manifest, describe_files, write_manifest
from swiftlet.processors import available_processors
from swiftlet.progress import Progress, Silence
from swiftlet.publication import (
    check_target,
    discard,
    locked_working_directory,
    publish,
    storage_errors,
)
from swiftlet.types import Document


class _Part:
    """The documents of a shard, and a hash of the whole corpus once it has been read."""

    def __init__(self, documents: Iterable[Document], shard: Shard) -> None:
        self._documents, self._shard = documents, shard
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
            if self._shard.has(place):
                has_some = True
                yield document
        if self.num_documents and not has_some:
            raise InvalidArgumentError(
                f"shard {self._shard} has no document, since the corpus has only "
                f"{self.num_documents}: take at most {self.num_documents} shards"
            )


def write_shard(
    documents: Iterable[Document],
    encoder_directory: Path,
    out: Path,
    shard: Shard,
    settings: BuildSettings | None = None,
    *,
    half: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    """Encode the documents of one shard into the directory `out`, completely or not at all.

    The whole corpus is read, since its hash tells whether shards belong together. After an
    interruption, the embeddings so far are reused, as by a build.

    :param settings: How documents are split and encoded; settings of the index are ignored.
    :param half: Store the embeddings in half precision.
    :raises RetrievalError: As `build_index`, and when the shard has no document.
    """
    settings, progress, out = settings or BuildSettings(), progress or Silence(), out.resolve()
    check_target(out, overwrite=overwrite, kind=KIND)
    encoder = OnnxEncoder.load(encoder_directory, precision=settings.precision, role="passage")
    splitter = settings.splitter(encoder)
    threads = settings.threads or available_processors()
    part = _Part(documents, shard)
    with locked_working_directory(out) as working, storage_errors(out):
        artefact = working / "artefact"
        file = EmbeddingsFile(working / "embeddings.f32", encoder.width)
        try:
            check_target(out, overwrite=overwrite, kind=KIND)  # another may have published since
            shutil.rmtree(artefact, ignore_errors=True)
            artefact.mkdir()
            corpus = write_documents(artefact / DOCUMENTS_FILE, part, splitter, progress)
            encode_corpus(corpus, file, progress, encoder=encoder, threads=threads)
            rows = file.rows()
            kept = np.lib.format.open_memmap(
                artefact / EMBEDDINGS_FILE, "w+", np.float16 if half else np.float32, rows.shape
            )
            kept[:] = rows
            kept.flush()
            manifest = Manifest(
                kind=KIND,
                dim=encoder.dim,
                embedding_space=encoder.embedding_space,
                files=describe_files(artefact, [DOCUMENTS_FILE, EMBEDDINGS_FILE]),
                created_by=f"swiftlet {version('swiftlet-retrieval')}",
                details={
                    **with_place(settings.details(encoder), encoder_directory),
                    "number": shard.number,
                    "of": shard.of,
                    "corpus": part.corpus,
                    "num_documents": corpus.num_documents,
                    "num_passages": corpus.num_passages,
                },
            )
            write_manifest(artefact, manifest)
            publish(artefact, out)
        except BaseException:
            if len(file):
                shutil.rmtree(artefact, ignore_errors=True)
                progress.note(f"the embeddings so far are kept in {working} for the next run")
            else:
                discard(working)
            raise
        discard(working)
    return manifest
