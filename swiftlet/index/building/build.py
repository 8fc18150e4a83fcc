"""Builds an index directory from a corpus."""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from swiftlet import encoders
from swiftlet.encoders.encoder import OnnxEncoder, Precision
from swiftlet.index.building.assembly import Assembly
from swiftlet.index.building.embeddings import encode_corpus
from swiftlet.index.building.encoded import EncodedCorpus
from swiftlet.index.columns.columns import COLUMNS_FOLDER, Columns
from swiftlet.index.columns.facets import check_facets
from swiftlet.index.document_encoder import with_place
from swiftlet.index.documents.passages import PassageSplitter
from swiftlet.index.documents.writer import Splitter, StoredCorpus
from swiftlet.index.lexical.analysis import DEFAULT_LANGUAGE, analysis_of
from swiftlet.index.vectors.embeddings_file import EmbeddingsFile
from swiftlet.index.vectors.faiss_index import FaissIndex
from swiftlet.manifest import Manifest
from swiftlet.processors import available_processors
from swiftlet.progress import Progress, Silence
from swiftlet.publication import (
    check_target,
    discard,
    locked_working_directory,
    publish,
    storage_errors,
)
from swiftlet.types import Document, Embeddings

_EMBEDDINGS_FILE, _COPIED_FILE = "embeddings.f32", "copied.f32"


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """How an index is built.

    `passage_tokens` and `overlap_tokens` as in `PassageSplitter`; with `truncate` a document is
    one passage, of which the encoder reads the beginning. `factory` is the FAISS factory string
    of the index; None chooses by size. `language` is one of `LANGUAGES`; None makes no lexical
    index. `facets` are fields of the metadata; some document must have each.
    """

    passage_tokens: int = 128
    overlap_tokens: int = 16
    truncate: bool = False
    factory: str | None = None
    language: str | None = DEFAULT_LANGUAGE
    facets: tuple[str, ...] = ()
    precision: Precision | None = None
    threads: int | None = None

    def splitter(self, encoder: OnnxEncoder) -> PassageSplitter:
        """What splits documents for this encoder.

        :raises InvalidArgumentError: When a passage would have no tokens of its own.
        """
        return PassageSplitter(
            encoder.tokenizer,
            max_tokens=encoder.max_tokens if self.truncate else self.passage_tokens,
            overlap_tokens=0 if self.truncate else self.overlap_tokens,
            truncate=self.truncate,
            prompt=encoder.prompt,
        )

    def details(self, encoder: OnnxEncoder) -> dict[str, Any]:
        """The details of a manifest on how documents are split and encoded."""
        splitter = self.splitter(encoder)
        return {
            "encoder": encoder.manifest.details.get("name", ""),
            "encoder_fingerprint": encoder.manifest.fingerprint,
            "precision": encoder.precision,
            "splitting": {
                "max_tokens": splitter.max_tokens,
                "overlap_tokens": splitter.overlap_tokens,
                "truncate": splitter.truncate,
            },
            **({"vectors": vectors} if (vectors := encoder.manifest.vectors) > 1 else {}),
        }


def build_index(
    documents: Iterable[Document] | EncodedCorpus,
    encoder_directory: Path | None,
    out: Path,
    settings: BuildSettings | None = None,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    finish: Callable[[Path, Path], Manifest | None] | None = None,
) -> Manifest:
    """Encode `documents` and write the index directory `out`, completely or not at all.

    A corpus that was encoded before keeps its splitting and precision. Memory holds the index and
    one buffer, for any size of the corpus. After an interruption, the embeddings so far are reused
    if encoder, corpus and splitting are the same. If `out` is an index that was made by the same
    encoder, its embeddings are taken for the passages that are as before.

    :param encoder_directory: None takes the encoder that ships, or that encoded the corpus.
    :param finish: Called with the finished directory, before it is published, and with the working
        directory, which stays after an interruption. It returns the manifest if it changes it.
    :raises InvalidArgumentError: When a setting is out of range, or `out` must not be written.
    :raises CollectionError: When the corpus is bad.
    :raises ArtefactError: When the encoder is damaged, or another process builds the same index.
    :raises StorageError: When the file system refuses.
    """
    settings = settings or BuildSettings()
    progress = progress or Silence()
    out = out.resolve()  # a link stays, and what it leads to is locked and replaced
    check_target(out, overwrite=overwrite, kind="index")
    threads = settings.threads or available_processors()
    splitter: Splitter
    if isinstance(documents, EncodedCorpus):
        encoder = documents.load_encoder(encoder_directory)
        details, splitter, embeddings_of = documents.details, documents, documents.copy_embeddings
        documents, embeddings_file = documents.documents(), _COPIED_FILE
    else:
        encoder_directory = encoder_directory or encoders.DEFAULT_ENCODER
        encoder = OnnxEncoder.load(encoder_directory, precision=settings.precision, role="passage")
        details, splitter = settings.details(encoder), settings.splitter(encoder)
        embeddings_of = partial(encode_corpus, encoder=encoder, threads=threads, index=out)
        embeddings_file = _EMBEDDINGS_FILE
    if encoder_directory is not None:
        details = with_place(details, encoder_directory)
    if settings.factory is not None:
        FaissIndex.create(settings.factory, encoder.dim)  # refused before the corpus is read
    if settings.language is not None:
        analysis_of(settings.language, encoder.tokenizer)
    with locked_working_directory(out) as working, storage_errors(out):
        artefact = working / "artefact"
        file = EmbeddingsFile(working / embeddings_file, encoder.width)
        try:
            # Another process may have published since.
            check_target(out, overwrite=overwrite, kind="index")
            shutil.rmtree(artefact, ignore_errors=True)
            artefact.mkdir()
            assembly = Assembly(
                encoder=encoder,
                engine=FaissIndex,
                factory=settings.factory,
                language=settings.language,
                threads=threads,
                progress=progress,
                details={**details, "facets": list(settings.facets)},
            )

            def embed(corpus: StoredCorpus) -> Embeddings:
                check_facets(settings.facets, Columns.open(artefact / COLUMNS_FOLDER))
                embeddings_of(corpus, file, progress)
                return file.rows()

            manifest = assembly.write(artefact, documents, splitter, embed)
            if finish is not None:
                manifest = finish(artefact, working) or manifest
            publish(artefact, out)
        except BaseException:
            # Encoding takes most of the time, so the next run resumes with these embeddings.
            if len(file) and embeddings_file == _EMBEDDINGS_FILE:
                shutil.rmtree(artefact, ignore_errors=True)
                progress.note(f"the embeddings so far are kept in {working} for the next run")
            else:
                discard(working)
            raise
        discard(working)
    return manifest
