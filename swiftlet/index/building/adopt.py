"""Builds an index directory from vectors that were made elsewhere."""

import hashlib
import stat
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swiftlet import disk
from swiftlet.arguments import StrPath, made, one_of, path_of
from swiftlet.corpora.fields import Fields
from swiftlet.corpora.rows import Corpus
from swiftlet.corpora.vector_sources import open_vectors
from swiftlet.corpora.vector_sources.place import parse_place
from swiftlet.corpora.vector_sources.source import Source
from swiftlet.corpora.vectors import Metric, VectorSource
from swiftlet.encoders.encoder import ModelEncoder
from swiftlet.encoders.function import remembered
from swiftlet.encoders.opening import EncoderSpec, Place, encoder_place, open_encoder
from swiftlet.errors import CollectionError, InvalidArgumentError
from swiftlet.index.acceptance import check_reproduces, some_of
from swiftlet.index.building.adopted import Adopted
from swiftlet.index.building.assembly import Assembly, Trained
from swiftlet.index.building.draft import draft
from swiftlet.index.building.settings import OPTIONS, BuildSettings
from swiftlet.index.building.space import Space, random_queries, space_of_encoder
from swiftlet.index.document_encoder import with_place
from swiftlet.index.documents.writer import StoredCorpus
from swiftlet.index.lexical.analysis import check_words
from swiftlet.index.space_sample import sampled_rows, space_of, write_sample
from swiftlet.index.vectors.embeddings_file import EmbeddingsFile
from swiftlet.index.vectors.faiss_file import FaissFile
from swiftlet.index.vectors.faiss_index import FaissIndex
from swiftlet.manifest import Manifest
from swiftlet.processors import available_processors
from swiftlet.progress import Progress, Silence
from swiftlet.publication import check_target
from swiftlet.types import Embeddings

METRICS = ("cosine", "inner_product", "l2")

_MOST_FIELDS = 20
"""How many fields a message names."""

_WHOLE = {"max_tokens": 1, "overlap_tokens": 0, "truncate": True}
"""How documents are split where no encoder is known: a vector is of a whole document."""


def adopt(
    vectors: StrPath | NDArray[Any] | VectorSource,
    out: StrPath,
    *,
    texts: Corpus | None = None,
    fields: Fields | None = None,
    vector_field: str | None = None,
    document_field: str | None = None,
    passage_field: str | None = None,
    ids: StrPath | Sequence[Any] | None = None,
    metric: Metric | None = None,
    as_is: bool | None = None,
    encoder: EncoderSpec | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    **settings: Any,
) -> Manifest:
    """Build the index directory `out` from vectors that were made elsewhere; nothing is encoded.

    `out` is written completely or not at all. After an interruption, the same call goes on with the
    rows that it had not read, unless it overwrites; files that changed since are read again.

    :param vectors: A file or a folder that `open_vectors` reads, an array (n, dim), or a source.
    :param texts: A corpus with the texts, paired by id, or by order where vectors have none.
    :param fields: The names of its fields, or those of the rows themselves.
    :param vector_field: The column with the vectors, if there are several.
    :param document_field: The field with the id of the document that a row is a passage of; None
        takes each row for a document.
    :param passage_field: The field that orders the passages of a document.
    :param ids: The ids of the rows, or a file with them.
    :param metric: "cosine", "inner_product" or "l2"; None takes what the source says, or "cosine".
    :param as_is: Keep a FAISS file untouched and serve it; None does so if it is one.
    :param encoder: The directory of the document encoder that made the vectors, if it is at hand:
        it must reproduce a sample of them. Documents that are put later are then encoded by it.
    :param overwrite: Replace an existing index.
    :param progress: Shows the progress, such as `ProgressLine()`; None shows nothing.
    :param settings: The fields of `BuildSettings`: docs/library.md describes each.
    :returns: The manifest of the index.
    :raises RetrievalError: When the vectors, a setting, the encoder or the storage is bad.
    """
    checked, progress = made(BuildSettings, **settings), progress or Silence()
    if metric is not None:
        one_of("metric", metric, METRICS)
    _check_effects(settings, document_field, passage_field, encoder)
    encoder_at, place = encoder_place(encoder), path_of("out", out).resolve()
    check_target(place, overwrite=overwrite, kind="index")
    source: VectorSource
    key: str | None = None
    if isinstance(vectors, str | PathLike | np.ndarray):
        key = _key_of(vectors, texts, ids, [fields, vector_field])
        source = open_vectors(
            vectors,
            texts=texts,
            fields=fields,
            vector_field=vector_field,
            ids=ids,
            note=progress.note,
        )
    elif hasattr(vectors, "blocks"):
        source, key = vectors, None if isinstance(vectors, Source) else ""
    else:
        raise InvalidArgumentError(
            f"vectors cannot be of the type {type(vectors).__name__}: a path, an array (n, dim) or "
            "a source is expected; an index of FAISS becomes a file by faiss.write_index"
        )
    file = _file_to_keep(source, as_is, checked, metric)
    if file is None and checked.factory is not None:
        FaissIndex.create(checked.factory, source.dim)  # refused before anything is read
    adopted = Adopted(
        source,
        document_field=document_field,
        passage_field=passage_field,
        metric=metric,
        keeps_file=file is not None,
        key=None if overwrite else key,
    )
    with draft(
        place,
        "index",
        width=source.dim,
        encodes=True,
        overwrite=overwrite,
        progress=progress,
        keeps=adopted.can_go_on_after,
    ) as (artefact, staged):
        adopted.stage(artefact.parent, staged, progress)
        if adopted.changed_lengths and not adopted.says_metric:
            progress.note(
                "the vectors had other lengths than 1 and are normalised, for cosines: --metric "
                "inner_product or l2 (in Python metric=…) keeps them, if their model compares so"
            )
        if others := adopted.other_texts():
            progress.note(
                "no row has a text: if one of the fields has it, name it by --text-field (in "
                f"Python fields=…): {', '.join(others[:_MOST_FIELDS])}"
            )
        copied = EmbeddingsFile(artefact.with_name("copied.f32"), source.dim)
        disk.remove(copied.path, missing_ok=True)
        return _assemble(adopted, artefact, copied, checked, encoder_at, file, progress)


def _key_of(
    vectors: StrPath | NDArray[Any], texts: Corpus | None, ids: object, options: object
) -> str | None:
    """A hash of what decides the rows of files; None if some are in memory, and are read anew."""
    paths = [vectors, ids, *(texts if isinstance(texts, list | tuple) else [texts])]
    found: list[object] = [f"{options}"]
    for path in paths:
        if not isinstance(path, str | PathLike | None):
            return None
        found.append(f"{path}")
        place = None if path is None else parse_place(path)
        if place is None or place.scheme:
            continue
        try:
            for each in sorted([place.folder, *place.folder.rglob("*")]):
                status = each.stat()
                if not stat.S_ISDIR(status.st_mode):
                    size, moment = status.st_size, status.st_mtime_ns
                    found.append((f"{each.resolve()}", size, moment, status.st_ino))
        except (OSError, ValueError):  # the reader says what is wrong
            return None
    return hashlib.sha256(repr(found).encode()).hexdigest()


def _assemble(
    adopted: Adopted,
    artefact: Path,
    copied: EmbeddingsFile,
    settings: BuildSettings,
    encoder: Place | None,
    file: Path | None,
    progress: Progress,
) -> Manifest:
    threads = settings.threads or available_processors()
    sample = sampled_rows(adopted.has_text)
    vectors = adopted.vectors(sample)
    metric, normalised = adopted.metric
    space = Space(
        adopted.dim, space_of(vectors), random_queries, metric=metric, normalised=normalised
    )
    details: dict[str, Any] = {
        "encoder": "",
        "encoder_fingerprint": "",
        "precision": "fp32",
        "splitting": _WHOLE,
        **settings.kept,
        "adopted": adopted.source_name,
    }
    if encoder is not None:
        loaded = open_encoder(encoder, "passage", precision=settings.precision)
        _check(loaded, adopted)
        space = replace(space_of_encoder(loaded, threads), metric=metric, normalised=normalised)
        details |= with_place(_made_by(loaded, adopted, settings), encoder)
    language = settings.language if adopted.has_text.any() else None
    if language is not None:
        check_words(language, space.tokenizer)
    elif settings.language is not None:
        progress.note("no row has a text: the index is searched by meaning alone")

    def trained(size: int) -> Trained | None:
        if file is None:
            return None
        index = FaissFile.open_as_it_is(file, adopted.order)
        if index.has_codes_only:
            progress.note(
                f"the file keeps codes ({index.kind}) and no finer ones, so that no candidate is "
                "scored again: its recall is measured against these codes"
            )
        return Trained(index, index.kind, size, 0.0)

    def also(_: StoredCorpus, __: Embeddings) -> Sequence[str]:
        return write_sample(artefact, sample, vectors)

    assembly = Assembly(
        space=space,
        engine=FaissIndex if file is None else FaissFile,
        factory=settings.factory,
        language=language,
        threads=threads,
        progress=progress,
        details=details,
        facets=settings.facets,
        boost=settings.boost or (),
    )
    return assembly.write(artefact, adopted, copied, trained, also)


def _file_to_keep(
    source: VectorSource, as_is: bool | None, settings: BuildSettings, metric: Metric | None
) -> Path | None:
    """The FAISS file that is served as it is, if one is.

    :raises InvalidArgumentError: When it cannot be.
    :raises CollectionError: When it does not give its vectors back.
    """
    file: Path | None = getattr(source, "faiss_file", None)
    if not getattr(source, "keeps_vectors", True):
        raise CollectionError(
            source.name,
            "this type of FAISS index does not give its vectors back, which filters and changes "
            "need: adopt the vectors that it was made of",
        )
    if as_is is False or (as_is is None and file is None):
        return None
    if file is None:
        raise InvalidArgumentError(
            f"{source.name} is no FAISS file, which alone is served as it is: leave out --as-is "
            "(in Python as_is)"
        )
    if settings.factory is not None:
        raise InvalidArgumentError(
            f"factory is {settings.factory!r}, but {source.name} is served as it is: pass "
            "--rebuild (in Python as_is=False), or leave out the factory"
        )
    if metric is not None and (metric == "l2") != (source.metric == "l2"):
        raise InvalidArgumentError(
            f"metric is {metric!r}, but {source.name} compares by {source.metric!r}: leave it out, "
            "or pass --rebuild (in Python as_is=False)"
        )
    return file


def _check_effects(
    given: Mapping[str, Any],
    document_field: str | None,
    passage_field: str | None,
    encoder: EncoderSpec | None,
) -> None:
    """Refuse what would change nothing.

    :raises InvalidArgumentError: When something would.
    """
    if passage_field is not None and document_field is None:
        raise InvalidArgumentError(
            f"--passage-field (in Python passage_field) is {passage_field!r}, but orders the rows "
            "of documents that --document-field (in Python document_field) names: give both"
        )
    unused = [name for name in given if OPTIONS[name].of_shards]
    if encoder is None and unused:
        raise InvalidArgumentError(
            f"--{unused[0].replace('_', '-')} (in Python {unused[0]}) is for texts that an encoder "
            "reads: name it by --encoder (in Python encoder), or leave out the option"
        )


def _made_by(encoder: ModelEncoder, adopted: Adopted, settings: BuildSettings) -> Mapping[str, Any]:
    """The details of an index whose vectors an encoder has made."""
    whole = _WHOLE | {"max_tokens": encoder.max_tokens}
    parts = {
        "max_tokens": settings.passage_tokens,
        "overlap_tokens": settings.overlap_tokens,
        "truncate": settings.truncate,
    }
    return {
        "encoder": encoder.manifest.details.get("name", ""),
        "encoder_fingerprint": encoder.manifest.fingerprint,
        "precision": encoder.precision,
        "splitting": parts if adopted.is_grouped else whole,
        **remembered(encoder),
    }


def _check(encoder: ModelEncoder, adopted: Adopted) -> None:
    """Refuse an encoder that does not reproduce a sample of the vectors.

    :raises EmbeddingSpaceMismatch: When it does not.
    :raises InvalidArgumentError: When there are no texts to compare, or it has other dimensions.
    """
    name = encoder.manifest.details.get("name", "")
    if encoder.width != adopted.dim:
        raise InvalidArgumentError(
            f"the vectors have {adopted.dim:,} numbers, but the encoder {name!r} gives "
            f"{encoder.width:,}: name the encoder that made them"
        )
    if not adopted.has_text.any():
        raise InvalidArgumentError(
            f"no row has a text, so that the encoder {name!r} cannot be compared: leave it out"
        )
    rows = sampled_rows(adopted.has_text)
    wanted = set(rows.tolist())
    texts = [text for row, text in enumerate(adopted.encoder_texts()) if row in wanted]
    check_reproduces(encoder, *some_of(texts, adopted.vectors(rows)), adopted.source_name)
