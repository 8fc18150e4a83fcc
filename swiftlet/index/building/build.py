"""Builds an index directory from a corpus."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from swiftlet import encoders
from swiftlet.arguments import StrPath, made, path_of
from swiftlet.corpora.languages import ENGLISH, LEAST_SHARE, Languages, begin_loading
from swiftlet.corpora.lines import SkippedLines
from swiftlet.corpora.rows import Corpus, documents_to_encode, rows_in
from swiftlet.corpora.vector_sources.source import Pairs, Source, of_pairs
from swiftlet.encoders.opening import EncoderSpec, Place, encoder_place, open_encoder
from swiftlet.errors import InvalidArgumentError, shown
from swiftlet.index.building.adopt import adopt
from swiftlet.index.building.assembly import Assembly, Work
from swiftlet.index.building.draft import draft
from swiftlet.index.building.embeddings import NewCorpus
from swiftlet.index.building.settings import BuildSettings
from swiftlet.index.building.shards import Shards
from swiftlet.index.building.space import space_of_encoder
from swiftlet.index.contents import EncodedCorpus
from swiftlet.index.document_encoder import load_document_encoder, with_place
from swiftlet.index.lexical import AUTO
from swiftlet.index.lexical.analysis import STEMMED, check_words
from swiftlet.index.vectors.faiss_index import FaissIndex
from swiftlet.manifest import Manifest
from swiftlet.processors import available_processors
from swiftlet.progress import Progress, Silence
from swiftlet.publication import check_target
from swiftlet.types import Document

_FIRST_DOCUMENTS = 300
_ENGLISH_ENCODERS = encoders.DEFAULT_ENCODER, encoders.LOOKUP_QUERY_ENCODER

Finish = Callable[[Path, Path], Manifest | None]
"""Completes a finished directory before it is published, and returns its manifest if it is new.

It is called with this directory, and with the working directory, which stays after an interruption.
"""


def build(
    corpus: Corpus | Shards,
    out: StrPath,
    *,
    encoder: EncoderSpec | None = None,
    overwrite: bool = False,
    skipped: SkippedLines | None = None,
    progress: Progress | None = None,
    finish: Finish | None = None,
    embeddings: str | ArrayLike | None = None,
    **settings: Any,
) -> Manifest:
    """Build the index directory `out` from a corpus, or from shards of one.

    `out` is written completely or not at all. After an interruption, the same call reuses the
    embeddings that were already computed.

    :param corpus: A path, an iterable of dicts or of `Document`, a DataFrame or an Arrow table; or
        `Shards`, which keep their own splitting and precision.
    :param encoder: The document encoder: a directory or name, a function of texts, or an address
        (docs/encoders.md); None takes the one that ships, or for shards the one that encoded them.
        "auto" takes the one called multilingual if it is there and the first documents need it.
    :param overwrite: Replace an existing index.
    :param skipped: Collects bad rows or lines, which are left out; None refuses them.
    :param progress: Shows the progress, such as `ProgressLine()`; None shows nothing.
    :param embeddings: Vectors (n, dim) that were made elsewhere, one for each document in order, or
        the name of the column that has them; then nothing is encoded, as by `adopt`.
    :param settings: The fields of `BuildSettings`: docs/library.md describes each.
    :returns: The manifest of the index.
    :raises RetrievalError: When the corpus, a setting, the encoder or the storage is bad.
    """
    if embeddings is not None:
        if finish is not None or skipped is not None or isinstance(corpus, Shards):
            raise InvalidArgumentError(
                "embeddings are of a corpus without skipped lines, and not of shards: leave out "
                "either"
            )
        settings |= {"encoder": encoder, "overwrite": overwrite, "progress": progress}
        if not isinstance(embeddings, str):
            return adopt(_array_of(embeddings), out, texts=corpus, **settings)
        if isinstance(corpus, str | PathLike):
            return adopt(corpus, out, vector_field=embeddings, **settings)
        return adopt(_with_column(corpus, embeddings), out, **settings)
    checked = made(BuildSettings, **settings)
    documents: Iterable[Document] | Shards = (
        corpus if isinstance(corpus, Shards) else documents_to_encode(corpus, skipped=skipped)
    )
    if encoder == AUTO and not isinstance(documents, Shards):
        encoder, documents = fitting(documents)
    places = encoder_place(encoder), path_of("out", out)
    return build_index(
        documents, *places, checked, overwrite=overwrite, progress=progress, finish=finish
    )


def fitting(documents: Iterable[Document]) -> tuple[Path | None, Iterable[Document]]:
    """The encoder that reads the languages of the first documents, and all documents.

    It is the multilingual one, if they need it and it is there; None is the one that ships.
    """
    rest, languages = iter(documents), Languages()
    first = [*languages.counted(islice(rest, _FIRST_DOCUMENTS))]
    found = encoders.find_shipped(encoders.MULTILINGUAL)
    is_needed = languages.needs_another_encoder and found.is_dir()
    return found if is_needed else None, chain(first, rest)


def _tell(progress: Progress, languages: Languages, *, is_english: bool) -> None:
    """Tell the shares of languages beside English, and whether the encoder reads them."""
    if (share := languages.share_beside(ENGLISH)) < LEAST_SHARE:
        return
    progress.note(languages.sentence(STEMMED))
    if is_english and languages.needs_another_encoder:
        name = encoders.MULTILINGUAL
        is_there = encoders.find_shipped(name).is_dir()
        first = f"run swiftlet encoders get {name}, which needs the extra export, then "
        progress.note(
            f"the encoder that ships reads English, but {share:.0%} of the documents are in other "
            f"languages: to find them by meaning, too, {'' if is_there else first}index them "
            f"again with --encoder {name}, as in swiftlet up FOLDER --encoder {name}"
        )


def _array_of(embeddings: ArrayLike) -> NDArray[Any]:
    """Vectors that were made elsewhere.

    :raises InvalidArgumentError: When they are no array (n, dim).
    """
    try:
        return np.asarray(embeddings)
    except ValueError:
        raise InvalidArgumentError(
            "embeddings are no array (n, dim): the rows are not of one length"
        ) from None


def _with_column(corpus: Corpus, embeddings: str) -> Source:
    """The documents of a corpus in memory with a column of vectors that were made elsewhere."""

    def pairs(first: int) -> Pairs:
        for number, row in enumerate(islice(rows_in(corpus), first, None), first):
            if not isinstance(row, Mapping):
                raise InvalidArgumentError(
                    f"embeddings is {embeddings!r}, but rows of {type(row).__name__} have no "
                    "columns: give an array"
                )
            rest = dict(row)
            if not number and embeddings not in rest:
                raise InvalidArgumentError(
                    f"embeddings is {embeddings!r}, but there is no such field in the first row: "
                    f"there are {shown([*rest])}"
                )
            vector = rest.pop(embeddings, None)
            yield rest, vector

    if isinstance(corpus, Iterator):
        raise InvalidArgumentError(
            "a corpus with a column of vectors is read more than once: give a list, a table or a "
            "file, not an iterator"
        )
    return of_pairs("the corpus", pairs)


def build_index(
    documents: Iterable[Document] | EncodedCorpus,
    place: Place | None,
    out: Path,
    settings: BuildSettings | None = None,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    finish: Finish | None = None,
    beside: Callable[[Work], Work] | None = None,
) -> Manifest:
    """`build`, of documents or of a corpus that was encoded before, with checked arguments.

    Memory holds the index and one buffer, for any size of the corpus. If `out` is an index that was
    made by the same encoder, its embeddings are taken for the passages that are as before.

    :param place: Of the encoder; None takes the encoder that ships, or that encoded the corpus.
    :param beside: As in `Assembly`.
    :raises InvalidArgumentError: When a setting is out of range, or `out` must not be written.
    :raises CollectionError: When the corpus is bad.
    :raises ArtefactError: When the encoder is damaged, or another process builds the same index.
    :raises StorageError: When the file system refuses.
    """
    settings, progress = settings or BuildSettings(), progress or Silence()
    out = out.resolve()  # a link stays, and what it leads to is locked and replaced
    check_target(out, overwrite=overwrite, kind="index")
    if settings.language == AUTO:
        begin_loading()
    corpus: EncodedCorpus | NewCorpus
    if isinstance(documents, EncodedCorpus):
        corpus, made = documents, f"{documents.name} were encoded"
        encoder = load_document_encoder(corpus.details, place, made=made)
    else:
        place = place or encoders.DEFAULT_ENCODER
        encoder = open_encoder(place, "passage", precision=settings.precision)
        corpus = NewCorpus(documents, encoder, settings, index=out)
    details = {**corpus.details, **settings.kept}
    if place is not None:
        details = with_place(details, place)
    if settings.factory is not None:
        FaissIndex.create(settings.factory, encoder.dim)  # refused before the corpus is read
    if settings.language is not None:
        check_words(settings.language, encoder.tokenizer)
    threads = settings.threads or available_processors()
    assembly = Assembly(
        space=space_of_encoder(encoder, threads),
        engine=FaissIndex,
        factory=settings.factory,
        language=settings.language,
        threads=threads,
        progress=progress,
        details=details,
        facets=settings.facets,
        boost=settings.boost or (),
        found=partial(_tell, progress, is_english=place in _ENGLISH_ENCODERS),
        beside=beside,
    )
    with draft(
        out,
        "index",
        width=encoder.width,
        encodes=isinstance(corpus, NewCorpus),
        overwrite=overwrite,
        progress=progress,
    ) as (artefact, file):
        manifest = assembly.write(artefact, corpus, file)
        if finish is not None:
            manifest = finish(artefact, artefact.parent) or manifest
    return manifest
