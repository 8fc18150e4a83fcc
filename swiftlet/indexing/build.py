"""Builds an index directory from a corpus."""

import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from swiftlet.indexing.columns_writer import write_columns
from swiftlet.indexing.document_writer import StoredCorpus, write_documents
from swiftlet.indexing.embeddings import EmbeddingsFile, encode_to_file
from swiftlet.indexing.progress import Progress, Silence
from swiftlet.indexing.sample_queries import sample_queries
from swiftlet.indexing.tuning import exact_rows, recall, tune
from swiftlet.retrieval.columns import COLUMN_FILES, COLUMNS_FOLDER, Columns
from swiftlet.retrieval.encoder import OnnxEncoder, Precision
from swiftlet.retrieval.encoding import encode_texts
from swiftlet.retrieval.engines import DEFAULT_ENGINE, find_engine, index_details
from swiftlet.retrieval.errors import InvalidArgumentError
from swiftlet.retrieval.facets import check_facets
from swiftlet.retrieval.index import VectorIndex
from swiftlet.retrieval.lexical import (
    DEFAULT_LANGUAGE,
    LEXICAL_FOLDER,
    analyser,
    write_lexical_index,
)
from swiftlet.retrieval.manifest import Manifest, describe_files, write_manifest
from swiftlet.retrieval.passages import PassageSplitter
from swiftlet.retrieval.processors import available_processors
from swiftlet.retrieval.publication import (
    check_target,
    discard,
    locked_working_directory,
    publish,
    save_array,
    storage_errors,
)
from swiftlet.retrieval.searcher import (
    DOCUMENTS_FILE,
    PASSAGE_TO_DOCUMENT_FILE,
)
from swiftlet.retrieval.stages.state import num_candidates_for
from swiftlet.retrieval.types import Document, Embeddings

_STATE_FILE = "build.json"
_EMBEDDINGS_FILE = "embeddings.f32"
_ADDED_ROWS = 65_536
_SAMPLE_QUERIES = 400
_SAMPLE_QUERIES_PER_PASSAGE = 4
_SEED = 0


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
) -> Manifest:
    """Encode `documents` and write the index directory `out`, completely or not at all.

    Memory holds the index and one buffer, for any size of the corpus. After an interruption, the
    embeddings so far are reused if encoder, corpus and splitting are the same.

    :raises InvalidArgumentError: When a setting is out of range, or `out` must not be written.
    :raises CollectionError: When the corpus is bad.
    :raises ArtefactError: When the encoder is damaged, or another process builds the same index.
    :raises StorageError: When the file system refuses.
    """
    settings = settings or BuildSettings()
    progress = progress or Silence()
    check_target(out, overwrite=overwrite)
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
        analyser(settings.language)
    threads = settings.threads or available_processors()
    with locked_working_directory(out) as working, storage_errors(out):
        artefact = working / "artefact"
        file = EmbeddingsFile(working / _EMBEDDINGS_FILE, encoder.dim)
        try:
            # Another process may have published since.
            check_target(out, overwrite=overwrite)
            shutil.rmtree(artefact, ignore_errors=True)
            artefact.mkdir()
            corpus = write_documents(artefact / DOCUMENTS_FILE, documents, splitter, progress)
            write_columns(artefact / COLUMNS_FOLDER, corpus.metadata())
            check_facets(settings.facets, Columns.open(artefact / COLUMNS_FOLDER))
            words = _index_words(corpus, artefact / LEXICAL_FOLDER, settings.language, progress)
            _encode(corpus, encoder, file, threads, progress)
            factory = settings.factory or engine.default_factory(corpus.num_passages, encoder.dim)
            index = engine.create(factory, encoder.dim)
            _fill(index, file.rows(), threads, progress)
            measured = _measure(
                index, file.rows(), corpus, encoder, threads, progress, hybrid=bool(words)
            )
            index.save(artefact / index.file_name)
            save_array(artefact / PASSAGE_TO_DOCUMENT_FILE, corpus.passage_to_document())
            manifest = Manifest(
                kind="index",
                dim=encoder.dim,
                embedding_space=encoder.embedding_space,
                files=describe_files(
                    artefact,
                    [
                        index.file_name,
                        DOCUMENTS_FILE,
                        PASSAGE_TO_DOCUMENT_FILE,
                        *(f"{COLUMNS_FOLDER}/{name}" for name in COLUMN_FILES),
                        *words,
                    ],
                ),
                created_by=f"swiftlet {version('swiftlet-retrieval')}",
                details={
                    "encoder": encoder.manifest.details.get("name", ""),
                    "encoder_fingerprint": encoder.manifest.fingerprint,
                    "precision": encoder.precision,
                    "num_documents": corpus.num_documents,
                    "num_passages": corpus.num_passages,
                    "splitting": {
                        "max_tokens": splitter.max_tokens,
                        "overlap_tokens": splitter.overlap_tokens,
                        "truncate": splitter.truncate,
                    },
                    **index_details(settings.engine, factory, index),
                    "language": settings.language,
                    "facets": list(settings.facets),
                    "recall": measured,
                },
            )
            write_manifest(artefact, manifest)
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


def _index_words(
    corpus: StoredCorpus, folder: Path, language: str | None, progress: Progress
) -> list[str]:
    """Write the lexical index, if there is a language; the names of its files."""
    if language is None:
        return []
    progress.begin("Indexing words", corpus.num_passages)

    codes = Columns.open(folder.with_name(COLUMNS_FOLDER)).codes_of_documents(corpus.num_documents)

    def passages() -> Iterator[tuple[str, list[int]]]:
        documents = corpus.passage_to_document()
        for text, document in zip(corpus.encoder_texts(), documents, strict=True):
            yield text, codes(document)
            progress.advance(1)

    names = write_lexical_index(folder, passages(), language)
    return [f"{folder.name}/{name}" for name in names]


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


def _fill(index: VectorIndex, embeddings: Embeddings, threads: int, progress: Progress) -> None:
    """Train `index` on a sample of `embeddings` (n, dim), and add them all."""
    size = len(embeddings)
    progress.begin("Training the index", None)
    sample = np.random.default_rng(_SEED).choice(size, index.training_size(size), replace=False)
    index.train(np.ascontiguousarray(embeddings[np.sort(sample)]), threads=threads)
    progress.begin("Adding embeddings", size)
    for start in range(0, size, _ADDED_ROWS):
        block = np.ascontiguousarray(embeddings[start : start + _ADDED_ROWS])
        index.add(block, threads=threads)
        progress.advance(len(block))


def _measure(
    index: VectorIndex,
    embeddings: Embeddings,
    corpus: StoredCorpus,
    encoder: OnnxEncoder,
    threads: int,
    progress: Progress,
    *,
    hybrid: bool,
) -> dict[str, Any]:
    """Tune the index, and measure its recall against exact search on other sample queries."""
    progress.begin("Measuring recall", None)
    size = len(embeddings)
    count = min(_SAMPLE_QUERIES, _SAMPLE_QUERIES_PER_PASSAGE * size)
    texts = sample_queries(corpus, count, np.random.default_rng(_SEED))
    queries = encode_texts(encoder, texts, threads)
    rows = index.search(queries[0], size)[1]
    if len(rows) != size:
        raise InvalidArgumentError(
            f"this type of index cannot give back all of its {size} passages, which maxP may need: "
            "choose another factory"
        )
    if hybrid:
        index.scores(queries[0], rows[:1])  # refused if the index does not keep its embeddings
    nearest = exact_rows(embeddings, queries, min(100, size))
    half = len(queries) // 2
    tune(index, queries[:half], nearest[:half, :10])
    measured: dict[str, Any] = {"num_queries": len(queries) - half}
    for depth in (10, 100):
        found = recall(index, queries[half:], nearest[half:, :depth], num_candidates_for(depth))
        measured[f"recall@{depth}"] = round(found, 4)
    return measured
