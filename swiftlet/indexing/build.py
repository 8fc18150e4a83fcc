"""Builds an index directory from a corpus."""

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swiftlet.indexing.assembly import Assembly
from swiftlet.indexing.document_writer import StoredCorpus
from swiftlet.indexing.embeddings import EmbeddingsFile, encode_to_file
from swiftlet.indexing.progress import Progress, Silence
from swiftlet.retrieval.encoder import OnnxEncoder, Precision
from swiftlet.retrieval.engines import DEFAULT_ENGINE, find_engine
from swiftlet.retrieval.lexical.analysis import DEFAULT_LANGUAGE, analysis_of
from swiftlet.retrieval.manifest import Manifest
from swiftlet.retrieval.metadata.columns import COLUMNS_FOLDER, Columns
from swiftlet.retrieval.metadata.facets import check_facets
from swiftlet.retrieval.passages import PassageSplitter
from swiftlet.retrieval.processors import available_processors
from swiftlet.retrieval.publication import (
    check_target,
    discard,
    locked_working_directory,
    publish,
    storage_errors,
)
from swiftlet.retrieval.types import Document, Embeddings

_STATE_FILE = "build.json"
_EMBEDDINGS_FILE = "embeddings.f32"


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """How an index is built.

    `passage_tokens` and `overlap_tokens` as in `PassageSplitter`; with `truncate` a document is
    one passage, of which the encoder reads the beginning. `engine` is one of `ENGINES`, `factory`
    the type of index that it makes; None chooses by size. `language` is one of `LANGUAGES`; None
    makes no lexical index. `facets` are fields of the metadata; some document must have each.
    """

    passage_tokens: int = 128
    overlap_tokens: int = 16
    truncate: bool = False
    engine: str = DEFAULT_ENGINE
    factory: str | None = None
    language: str | None = DEFAULT_LANGUAGE
    facets: tuple[str, ...] = ()
    precision: Precision | None = None
    threads: int | None = None


def build_index(
    documents: Iterable[Document],
    encoder_directory: Path,
    out: Path,
    settings: BuildSettings | None = None,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    finish: Callable[[Path, Path], Manifest | None] | None = None,
) -> Manifest:
    """Encode `documents` and write the index directory `out`, completely or not at all.

    Memory holds the index and one buffer, for any size of the corpus. After an interruption, the
    embeddings so far are reused if encoder, corpus and splitting are the same.

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
    encoder = OnnxEncoder.load(encoder_directory, precision=settings.precision)
    splitter = PassageSplitter(
        encoder.tokenizer,
        max_tokens=encoder.max_tokens if settings.truncate else settings.passage_tokens,
        overlap_tokens=0 if settings.truncate else settings.overlap_tokens,
        truncate=settings.truncate,
    )
    engine = find_engine(settings.engine)
    if settings.factory is not None:
        engine.create(settings.factory, encoder.dim)  # refused before the corpus is read
    if settings.language is not None:
        analysis_of(settings.language, encoder.tokenizer)
    threads = settings.threads or available_processors()
    with locked_working_directory(out) as working, storage_errors(out):
        artefact = working / "artefact"
        file = EmbeddingsFile(working / _EMBEDDINGS_FILE, encoder.width)
        try:
            # Another process may have published since.
            check_target(out, overwrite=overwrite, kind="index")
            shutil.rmtree(artefact, ignore_errors=True)
            artefact.mkdir()
            assembly = Assembly(
                encoder=encoder,
                engine=settings.engine,
                factory=settings.factory,
                language=settings.language,
                threads=threads,
                progress=progress,
                details={
                    "encoder": encoder.manifest.details.get("name", ""),
                    "encoder_fingerprint": encoder.manifest.fingerprint,
                    "precision": encoder.precision,
                    "splitting": {
                        "max_tokens": splitter.max_tokens,
                        "overlap_tokens": splitter.overlap_tokens,
                        "truncate": splitter.truncate,
                    },
                    "facets": list(settings.facets),
                    **({"vectors": vectors} if (vectors := encoder.manifest.vectors) > 1 else {}),
                },
            )

            def embed(corpus: StoredCorpus) -> Embeddings:
                check_facets(settings.facets, Columns.open(artefact / COLUMNS_FOLDER))
                _encode(corpus, encoder, file, threads, progress)
                return file.rows()

            manifest = assembly.write(artefact, documents, splitter, embed)
            if finish is not None:
                manifest = finish(artefact, working) or manifest
            publish(artefact, out)
        except BaseException:
            # Encoding takes most of the time, so the next run resumes with these embeddings.
            if len(file):
                shutil.rmtree(artefact, ignore_errors=True)
                progress.note(f"the embeddings so far are kept in {working} for the next run")
            else:
                discard(working)
            raise
        discard(working)
    return manifest


def _encode(
    corpus: StoredCorpus,
    encoder: OnnxEncoder,
    file: EmbeddingsFile,
    threads: int,
    progress: Progress,
) -> None:
    """Complete `file`; an earlier run of the same build may have left a part of it."""
    state = {
        "content": corpus.content_sha256,
        "encoder": encoder.manifest.fingerprint,
        "precision": encoder.precision,
    }
    state_path = file.path.with_name(_STATE_FILE)
    if _read_state(state_path) != state:
        if len(file):
            progress.note(
                "an interrupted build of another corpus, splitting or encoder is discarded "
                f"({len(file):,} embeddings)"
            )
        file.path.unlink(missing_ok=True)
        state_path.write_text(json.dumps(state))
    encode_to_file(
        encoder,
        corpus.encoder_texts(first_row=len(file)),
        file,
        total=corpus.num_passages,
        threads=threads,
        progress=progress,
    )


def _read_state(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
