"""Merges the changes of an index into a new base: a build that splits and encodes nothing again."""

import re
from collections.abc import Sequence
from pathlib import Path

from swiftlet.encoders import QUERY_ENCODER_FOLDER
from swiftlet.encoders.encoder import ModelEncoder
from swiftlet.encoders.opening import Place
from swiftlet.index.building.assembly import FOUND, Assembly, Trained
from swiftlet.index.building.space import space_of_index
from swiftlet.index.changes.log import FIRST_CHANGE
from swiftlet.index.contents import Contents
from swiftlet.index.document_encoder import load_document_encoder
from swiftlet.index.documents.writer import StoredCorpus
from swiftlet.index.lexical.analysis import version_in
from swiftlet.index.query_encoder import put_query_encoder
from swiftlet.index.space_sample import SPACE_FILE, merged_sample
from swiftlet.index.vectors import engine_of, of_vectors
from swiftlet.index.vectors.embeddings_file import EmbeddingsFile
from swiftlet.index.vectors.faiss_file import FaissFile
from swiftlet.index.vectors.tuning import TARGET
from swiftlet.manifest import Manifest, load_manifest
from swiftlet.processors import available_processors
from swiftlet.progress import Progress, Silence
from swiftlet.types import Embeddings

EMBEDDINGS_FILE = "merge.f32"
"""Beside the directory that a merge writes."""

_MOST_GROWTH = 2
_NUMBERS = re.compile(r"\d+")


def merge_changes(
    index: Path,
    artefact: Path,
    last: int,
    encoder: Place | ModelEncoder | None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Write a new base of `index`, with its changes up to `last`, into the empty `artefact`.

    The vector index is trained again when the collection has doubled or halved since its training,
    when its size asks for another type, or when it finds fewer of the nearest.

    :param encoder: The document encoder of the index, or its place; None finds it, unless the index
        has none.
    :raises ArtefactError: When the index or the encoder is damaged, or they do not fit together.
    :raises StorageError: When the file system refuses.
    """
    progress = progress or Silence()
    manifest = load_manifest(index, "index")
    details = manifest.details
    engine, factory = engine_of(details), details["factory"]
    training = details.get("training", {})
    trained_on = training.get("num_passages", details["num_passages"])
    vectors = manifest.vectors
    # A file of FAISS that was taken as it is keeps its type at any size.
    as_it_is = engine is FaissFile
    by_size = not as_it_is and factory == engine.default_factory(trained_on * vectors, manifest.dim)

    def trained(size: int) -> Trained | None:
        wanted = engine.default_factory(size * vectors, manifest.dim) if by_size else factory
        same_type = _NUMBERS.sub("", wanted) == _NUMBERS.sub("", factory)
        grown = not 1 / _MOST_GROWTH < size / trained_on < _MOST_GROWTH
        if not as_it_is and (not same_type or grown):
            return None
        found = engine.load_trained(index / engine.file_name)
        share = training.get(FOUND, TARGET)  # earlier versions tuned to another measure
        if found is None:
            return None
        return Trained(of_vectors(found, vectors), factory, trained_on, share)

    threads = threads or available_processors()
    if not details["encoder_fingerprint"]:
        encoder = None
    elif encoder is None or isinstance(encoder, Place):
        encoder = load_document_encoder(details, encoder)
    assembly = Assembly(
        space=space_of_index(manifest, encoder, threads),
        engine=engine,
        factory=None if by_size else factory,
        language=details.get("language"),
        threads=threads,
        progress=progress,
        details={**details, FIRST_CHANGE: last},
        analysis=version_in(details),
    )
    merged = Contents(index, manifest, last)
    file = EmbeddingsFile(artefact.with_name(EMBEDDINGS_FILE), manifest.width)

    def also(corpus: StoredCorpus, embeddings: Embeddings) -> Sequence[str]:
        if SPACE_FILE not in manifest.files:
            return ()
        return merged_sample(index, artefact, merged.kept, corpus.encoder_texts(), embeddings)

    written = assembly.write(artefact, merged, file, trained, also)
    own = index / QUERY_ENCODER_FOLDER
    return put_query_encoder(own, artefact, {}) if own.is_dir() else written
