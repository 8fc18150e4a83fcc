"""Publishes an index to a Milvus server, without encoding anything again."""

import json
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path

import numpy as np

from swiftlet.indexing.contents import Contents
from swiftlet.indexing.milvus.rows import Row, rows_of, rows_without_embeddings, with_rows
from swiftlet.indexing.milvus.vector_index import (
    IndexType,
    VectorIndexPlan,
    await_index,
    check_index_type,
    make_index,
    plan_index,
    tuned,
)
from swiftlet.indexing.milvus.words import drop_words, push_words, word_vectors
from swiftlet.indexing.preparation import load_encoder
from swiftlet.indexing.progress import Progress, Silence
from swiftlet.indexing.shards import Shards
from swiftlet.indexing.split_documents import SplitDocument
from swiftlet.retrieval.changes.log import Changes
from swiftlet.retrieval.encoder import OnnxEncoder
from swiftlet.retrieval.encoding import encode_texts
from swiftlet.retrieval.errors import IndexServerError, InvalidArgumentError, shown
from swiftlet.retrieval.extras import extra
from swiftlet.retrieval.lexical.analysis import DEFAULT_LANGUAGE, check_language
from swiftlet.retrieval.manifest import Manifest, load_manifest
from swiftlet.retrieval.milvus.address import Address
from swiftlet.retrieval.milvus.collection import Collection, index_of, manifest_property
from swiftlet.retrieval.milvus.filter_fields import FilterFields, facet_values
from swiftlet.retrieval.milvus.schema import (
    AFTER,
    BEFORE,
    COMPLETE,
    DOCUMENT_ID,
    EMBEDDING,
    END,
    FILTER_FIELDS,
    HEADING,
    KEYS,
    LONGEST_ID,
    LONGEST_TEXT,
    MANIFEST,
    METADATA,
    NUMBER,
    PARAMETERS,
    PASSAGES,
    ROW,
    SECTIONS,
    SOURCE,
    START,
    STATE,
    TEXT,
    TITLE,
    WORD_STATISTICS,
    WORDS,
    WRONG,
    facet_columns,
    row_of,
)
from swiftlet.retrieval.milvus.words import WordCounts, WordVectors, has_words
from swiftlet.retrieval.passages import encoder_text
from swiftlet.retrieval.types import Embeddings

_BATCH_ROWS = 500
_NOTED_BATCHES = 20
_ENCODED_AGAIN = 20
_SAME = 0.05  # passages may have one text, and embeddings are rounded
_MOST_FACETS = 14  # a collection of Milvus has 64 fields at most, and a facet three
_AGAIN = "interrupted: run the same command again to continue"


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push has written.

    `recall` is the share of each sample query's ten nearest passages that searches find; None if a
    search compares every passage. `without_words` is the reason why searches are by meaning alone,
    empty if they are hybrid.
    """

    num_passages: int
    recall: float | None
    without_words: str


def push(
    index: Path | Shards,
    address: Address,
    encoder: Path | None = None,
    *,
    language: str | None = DEFAULT_LANGUAGE,
    facets: Sequence[str] = (),
    index_type: IndexType | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Pushed:
    """Write the passages of `index`, with its changes, to a collection, and make it searchable.

    Embeddings are as precise as the index keeps them. An interrupted push goes on where it was.
    The collection can be searched when this returns, and not before.

    :param index: An index directory, or the shards of a corpus.
    :param encoder: The directory of the document encoder, which measures the recall of searches;
        None takes the one that the index or the shards remember.
    :param language: That of the words of shards; None pushes no words. An index has its own.
    :param facets: Those of shards: the server indexes these fields for filters. An index has its
        own; the first 14 count.
    :param index_type: How the server indexes embeddings; None depends on the number of passages.
    :raises ArtefactError: When the index or the encoder is damaged, or they do not fit together.
    :raises InvalidArgumentError: When the collection exists and `overwrite` is not set, or is not
        of Swiftlet; or a document has more than a row holds.
    :raises IndexServerError: When the server is away or refuses; the same call goes on.
    """
    progress = progress or Silence()
    check_index_type(index_type)
    if isinstance(index, Shards):
        source = _shards(index, language, facets)
    else:
        source, facets = _index(index), ()
    if source.manifest.vectors > 1:
        raise InvalidArgumentError(
            f"a passage has {source.manifest.vectors} vectors there, but one on Milvus"
        )
    loaded = load_encoder(encoder, source.manifest).reading("query")
    collection = Collection(address)
    without_words = _reason_against_words(source.manifest, collection)
    done = _written(collection, source, index_type, overwrite=overwrite)
    total, fields = _checked(source, facets, progress)
    if done is not None:
        index_type = index_of(collection).get("index_type", index_type)
    plan = plan_index(total, index_type)
    hybrid = not without_words
    if done is None:
        _create(collection, source, fields, hybrid=hybrid)
    begun = _Begun(done or 0, done is not None, hybrid)
    try:
        recall = _finish(collection, source, begun, total, plan, loaded, progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_AGAIN) from None
    return Pushed(total, recall, without_words)


def _finish(
    collection: Collection,
    source: "_Source",
    begun: "_Begun",
    total: int,
    plan: VectorIndexPlan,
    encoder: OnnxEncoder,
    progress: Progress,
) -> float | None:
    """Write what is missing, and make it searchable; the recall of searches, as in `Pushed`."""
    if begun.hybrid and word_vectors(collection.description()) is None:
        progress.begin("Counting words", total)
        language = source.manifest.details["language"]
        statistics = push_words(collection.address, source.documents(), language, progress)
        collection.set_properties({WORD_STATISTICS: statistics.as_property()})
    description = collection.description()
    words, facets = word_vectors(description), FilterFields.of(description["properties"]).facets
    progress.begin("Pushing passages", total, begun.done)
    rows = _rows(source.documents(), source.embeddings(), words, facets)
    _write(collection, rows, begun, progress)
    collection.call("flush", slow=True)
    make_index(collection, plan, facets=len(facets), hybrid=begun.hybrid)
    await_index(collection, total, progress)
    collection.call("load_collection", slow=True)
    _check_count(collection, total)
    _check_sample(collection, encoder)
    progress.begin("Measuring recall", None)
    parameters, recall = tuned(collection, plan, encoder, source.embeddings())
    collection.set_properties({STATE: COMPLETE, PARAMETERS: json.dumps(parameters)})
    return recall


def _reason_against_words(manifest: Manifest, collection: Collection) -> str:
    """Why the collection cannot have words, as the part of a sentence; empty if it can."""
    language = manifest.details.get("language")
    if language is None:
        return "the index has no words"
    if not has_words(language):
        return f"words of the language {language!r} cannot be pushed"
    return "the server is older than Milvus 2.4" if collection.is_old() else ""


@dataclass(frozen=True, slots=True)
class _Source:
    """What is pushed: documents, and the embeddings (dim,) of all their passages.

    `identity` changes with them.
    """

    manifest: Manifest
    identity: str
    documents: Callable[[], Iterator[SplitDocument]]
    embeddings: Callable[[], Iterator[Embeddings]]


def _index(index: Path) -> _Source:
    manifest = load_manifest(index, "index")
    with closing(Changes(index, manifest)) as changes:
        last = changes.last()

    def documents() -> Iterator[SplitDocument]:
        return Contents(index, manifest, last).documents()

    def embeddings() -> Iterator[Embeddings]:
        contents = Contents(index, manifest, last)
        deque(contents.documents(), maxlen=0)  # the embeddings follow the documents
        return chain.from_iterable(contents.embeddings())

    return _Source(manifest, f"{manifest.fingerprint} {last}", documents, embeddings)


def _shards(shards: Shards, language: str | None, facets: Sequence[str]) -> _Source:
    if language is not None:
        check_language(language)
    words = {} if language is None else {"language": language}
    manifest = Manifest(
        kind="index",
        dim=shards.dim,
        embedding_space=shards.embedding_space,
        files={},
        created_by=f"swiftlet {version('swiftlet-retrieval')}",
        details={**shards.details, **words, "facets": list(dict.fromkeys(facets))},
    )

    def embeddings() -> Iterator[Embeddings]:
        return chain.from_iterable(shards.embeddings())

    return _Source(manifest, shards.identity, shards.documents, embeddings)


def _checked(
    source: _Source, new_facets: Sequence[str], progress: Progress
) -> tuple[int, FilterFields]:
    """The number of passages and what filters compare, after each document was checked.

    :raises InvalidArgumentError: When a document has more than rows hold, two passages have the
        same hash, or no document has one of `new_facets`.
    """
    progress.begin("Checking documents", None)
    declared = tuple(dict.fromkeys(source.manifest.details.get("facets", ())))
    facets = declared[:_MOST_FACETS]
    if more := declared[_MOST_FACETS:]:
        progress.note(
            f"the server indexes {_MOST_FACETS} facets; filters on the others are slower: "
            f"{', '.join(map(shown, more))}"
        )
    fields, missing, hashes = FilterFields(facets), {*new_facets}, array("q")
    for document in source.documents():
        rows = rows_without_embeddings(document, document.passages)
        fields = with_rows(fields, rows)
        hashes.extend(row[ROW] for row in rows)
        if missing and rows:
            missing -= {path for path in missing if any(facet_values(rows[0][KEYS], path))}
    if missing:
        raise InvalidArgumentError(
            f"the facet is {shown(min(missing))}, but no document has a value of it"
        )
    ordered = np.sort(np.frombuffer(hashes, np.int64))
    if len(twice := ordered[1:][ordered[1:] == ordered[:-1]]):
        names = [
            document.document_id
            for document in source.documents()
            for number in range(len(document.passages))
            if row_of(document.document_id, number) == twice[0]
        ]
        raise InvalidArgumentError(
            f"passages of the documents {shown(names)} have the same hash: give one another id"
        )
    return len(hashes), fields


@dataclass(frozen=True, slots=True)
class _Begun:
    """A collection that is being written: how many rows it has, and perhaps more if `again`."""

    done: int
    again: bool
    hybrid: bool


def _written(
    collection: Collection, source: _Source, index_type: IndexType | None, *, overwrite: bool
) -> int | None:
    """How many rows an interrupted push of this source has written; None if there was none.

    :raises InvalidArgumentError: When there is another collection and `overwrite` is not set.
    """
    if not collection.exists():
        return None
    properties = collection.description()["properties"]
    state = properties.get(STATE, COMPLETE)
    what = {COMPLETE: "exists", WRONG: "has wrong passages"}.get(state)
    about = manifest_property(source.manifest), source.identity
    if what is None and (properties.get(MANIFEST), properties.get(SOURCE)) == about:
        found = index_of(collection).get("index_type")
        if index_type is None or found in (None, index_type):
            return int(state)
        what = f"has an index of the type {found}"
    if not overwrite:
        raise InvalidArgumentError(
            f"{collection.address} {what or 'is what another push has begun'}; choose another "
            "collection or pass --overwrite"
        )
    return None


def _create(collection: Collection, source: _Source, fields: FilterFields, *, hybrid: bool) -> None:
    """Make the collection, in the place of an earlier one."""
    if hybrid:
        drop_words(WordCounts(collection.address).collection)
    if collection.exists():
        collection.call("drop_collection", slow=True)
    with extra("milvus"):
        from pymilvus import DataType
    schema = collection.client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field(ROW, DataType.INT64, is_primary=True)
    schema.add_field(DOCUMENT_ID, DataType.VARCHAR, max_length=LONGEST_ID)
    for name in (NUMBER, PASSAGES, START, END):
        schema.add_field(name, DataType.INT64)
    for name in (TITLE, HEADING, TEXT, BEFORE, AFTER, SECTIONS, METADATA):
        schema.add_field(name, DataType.VARCHAR, max_length=LONGEST_TEXT)
    schema.add_field(KEYS, DataType.JSON)
    schema.add_field(EMBEDDING, DataType.FLOAT_VECTOR, dim=source.manifest.dim)
    if hybrid:
        schema.add_field(WORDS, DataType.SPARSE_FLOAT_VECTOR)
    for text, *integers in map(facet_columns, range(len(fields.facets))):
        schema.add_field(text, DataType.VARCHAR, max_length=LONGEST_ID)
        for column in integers:
            schema.add_field(column, DataType.INT64)
    properties = {
        MANIFEST: manifest_property(source.manifest),
        SOURCE: source.identity,
        STATE: "0",
        FILTER_FIELDS: fields.as_property(),
    }
    collection.call("create_collection", slow=True, schema=schema, properties=properties)


def _rows(
    documents: Iterator[SplitDocument],
    embeddings: Iterator[Embeddings],
    words: WordVectors | None,
    facets: Sequence[str | None],
) -> Iterator[Row]:
    """The rows of all documents, in their order, with the embeddings (dim,) of all passages."""
    for document in documents:
        of_document = np.stack([*islice(embeddings, len(document.passages))])
        yield from rows_of(document, document.passages, of_document, words, facets)


def _write(collection: Collection, rows: Iterator[Row], begun: _Begun, progress: Progress) -> None:
    """Insert the rows that are missing; note from time to time how many there are."""
    rows = islice(rows, begun.done, None)
    number, done = 0, begun.done
    while batch := [*islice(rows, _BATCH_ROWS)]:
        # What was written after the last note is there already.
        resumed = begun.again and number < _NOTED_BATCHES
        collection.call("upsert" if resumed else "insert", slow=True, data=batch)
        done, number = done + len(batch), number + 1
        progress.advance(len(batch))
        if number % _NOTED_BATCHES == 0:
            collection.set_properties({STATE: f"{done}"})
    collection.set_properties({STATE: f"{done}"})


def _check_count(collection: Collection, expected: int) -> None:
    found = collection.count(exactly=True)
    if found != expected:
        collection.set_properties({STATE: WRONG})
        raise IndexServerError(
            f"{collection.address} has {found:,} passages, but the index has {expected:,}: push it "
            "again with --overwrite"
        )


def _check_sample(collection: Collection, encoder: OnnxEncoder) -> None:
    """Encode the texts of some rows again: each must be nearest to the embedding of its row."""
    fields = [TITLE, TEXT, EMBEDDING]
    sample = collection.call("query", filter="", limit=_ENCODED_AGAIN, output_fields=fields)
    if not sample:
        return
    stored = np.array([row[EMBEDDING] for row in sample], np.float32)
    texts = [encoder_text(row[TITLE], row[TEXT]) for row in sample]
    scores = encode_texts(encoder.reading("passage"), texts) @ stored.T
    if (scores.max(axis=1) - scores.diagonal() > _SAME).any():
        collection.set_properties({STATE: WRONG})
        raise IndexServerError(
            f"{collection.address} has embeddings that are not those of their texts: push the "
            "index again with --overwrite"
        )
