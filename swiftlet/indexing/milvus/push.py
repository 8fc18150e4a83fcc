"""Publishes an index to a Milvus server, without encoding anything again."""

import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain, islice
from math import sqrt
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np

from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.indexing.contents import Contents
from swiftlet.indexing.milvus.rows import Row, check_document, most_values, rows_of
from swiftlet.indexing.milvus.words import drop_words, push_words, takes_words, word_vectors
from swiftlet.indexing.preparation import load_encoder
from swiftlet.indexing.progress import Progress, Silence
from swiftlet.indexing.sample_queries import span_of
from swiftlet.indexing.shards import Shards
from swiftlet.indexing.split_documents import SplitDocument
from swiftlet.indexing.tuning import NEAR, TARGET
from swiftlet.retrieval.changes.log import Changes
from swiftlet.retrieval.encoder import OnnxEncoder
from swiftlet.retrieval.encoding import encode_texts
from swiftlet.retrieval.errors import IndexServerError, InvalidArgumentError
from swiftlet.retrieval.extras import extra
from swiftlet.retrieval.lexical.analysis import DEFAULT_LANGUAGE
from swiftlet.retrieval.manifest import Manifest, load_manifest
from swiftlet.retrieval.milvus.address import Address
from swiftlet.retrieval.milvus.collection import Collection, manifest_property
from swiftlet.retrieval.milvus.schema import (
    AFTER,
    BEFORE,
    COMPLETE,
    DOCUMENT_ID,
    EMBEDDING,
    END,
    FAST,
    KEYS,
    LONGEST_ID,
    LONGEST_TEXT,
    MANIFEST,
    METADATA,
    MOST_VALUES,
    NUMBER,
    PARAMETERS,
    PASSAGES,
    ROW,
    SECTIONS,
    SOURCE,
    START,
    STATE,
    TEXT,
    THOROUGH,
    TITLE,
    WORD_STATISTICS,
    WORDS,
    WRONG,
)
from swiftlet.retrieval.milvus.words import WordCounts, WordVectors, has_words
from swiftlet.retrieval.passages import encoder_text
from swiftlet.retrieval.types import Embeddings

EXACT_UP_TO = 50_000
"""Up to this many passages, a search compares a query with every embedding."""

_SCANNED_TYPE, _LISTS_TYPE, _WORDS_TYPE = "FLAT", "IVF_SQ8", "SPARSE_INVERTED_INDEX"
_LISTS_PER_ROOT = 1  # more take the server longer to make
_SECONDS_BETWEEN_LOOKS = 0.5
_MOST_PROBES = 65_536  # a server takes no more, and visits no more lists than there are
_BATCH_ROWS = 500
_NOTED_BATCHES = 20
_SAMPLE, _ENCODED_AGAIN = 100, 20
_SAME = 0.05  # passages may have one text, and embeddings are rounded
_NEAREST = 10
_SEED = 0
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
    encoder: Path = DEFAULT_ENCODER,
    *,
    language: str | None = DEFAULT_LANGUAGE,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Pushed:
    """Write the passages of `index`, with its changes, to a collection, and make it searchable.

    Embeddings are as precise as the index keeps them. An interrupted push goes on where it was.
    The collection can be searched when this returns, and not before.

    :param index: An index directory, or the shards of a corpus.
    :param encoder: The directory of the document encoder, which measures the recall of searches.
    :param language: That of the words of shards; None pushes no words. An index has its own.
    :raises ArtefactError: When the index or the encoder is damaged, or they do not fit together.
    :raises InvalidArgumentError: When the collection exists and `overwrite` is not set, or is not
        of Swiftlet; or a document has more than a row holds.
    :raises IndexServerError: When the server is away or refuses; the same call goes on.
    """
    progress = progress or Silence()
    source = _shards(index, language) if isinstance(index, Shards) else _index(index)
    if source.manifest.vectors > 1:
        raise InvalidArgumentError(
            f"a passage has {source.manifest.vectors} vectors there, but one on Milvus"
        )
    loaded = load_encoder(encoder, source.manifest).reading("query")
    collection = Collection(address)
    without_words = _reason_against_words(source.manifest, collection)
    total = _checked(source, progress)
    begun = _begin(collection, source, hybrid=not without_words, overwrite=overwrite)
    try:
        recall = _finish(collection, source, begun, total, loaded, progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_AGAIN) from None
    return Pushed(total, recall, without_words)


def _finish(
    collection: Collection,
    source: "_Source",
    begun: "_Begun",
    total: int,
    encoder: OnnxEncoder,
    progress: Progress,
) -> float | None:
    """Write what is missing, and make it searchable; the recall of searches, as in `Pushed`."""
    if begun.hybrid and word_vectors(collection.description()) is None:
        progress.begin("Counting words", total)
        language = source.manifest.details["language"]
        statistics = push_words(collection.address, source.documents(), language, progress)
        collection.set_properties({WORD_STATISTICS: statistics.as_property()})
    words = word_vectors(collection.description())
    progress.begin("Pushing passages", total, begun.done)
    _write(collection, _rows(source.documents(), source.embeddings(), words), begun, progress)
    collection.call("flush", slow=True)
    lists = _make_index(collection, total, hybrid=begun.hybrid)
    _await_index(collection, total, progress)
    collection.call("load_collection", slow=True)
    _check_count(collection, total)
    _check_sample(collection, encoder)
    progress.begin("Measuring recall", None)
    parameters, recall = _tuned(collection, lists, encoder)
    collection.set_properties({STATE: COMPLETE, PARAMETERS: json.dumps(parameters)})
    return recall


def _reason_against_words(manifest: Manifest, collection: Collection) -> str:
    """Why the collection cannot have words, as the part of a sentence; empty if it can."""
    language = manifest.details.get("language")
    if language is None:
        return "the index has no words"
    if not has_words(language):
        return f"words of the language {language!r} cannot be pushed"
    return "" if takes_words(collection) else "the server is older than Milvus 2.4"


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


def _shards(shards: Shards, language: str | None) -> _Source:
    manifest = Manifest(
        kind="index",
        dim=shards.dim,
        embedding_space=shards.embedding_space,
        files={},
        created_by=f"swiftlet {version('swiftlet-retrieval')}",
        details={**shards.details, **({} if language is None else {"language": language})},
    )

    def embeddings() -> Iterator[Embeddings]:
        return chain.from_iterable(shards.embeddings())

    return _Source(manifest, shards.identity, shards.documents, embeddings)


def _checked(source: _Source, progress: Progress) -> int:
    """The number of passages, after each document was checked.

    :raises InvalidArgumentError: When a document has more than rows hold.
    """
    progress.begin("Checking documents", None)
    total = 0
    for document in source.documents():
        check_document(document, document.passages)
        total += len(document.passages)
    return total


@dataclass(frozen=True, slots=True)
class _Begun:
    """A collection that is being written: how many rows it has, and perhaps more if `again`."""

    done: int
    again: bool
    hybrid: bool


def _begin(collection: Collection, source: _Source, *, hybrid: bool, overwrite: bool) -> _Begun:
    """Make the collection, or find how many rows an interrupted push has written."""
    address, about = collection.address, manifest_property(source.manifest)
    if collection.exists():
        properties = collection.description()["properties"]
        state = properties.get(STATE, COMPLETE)
        is_same = (properties.get(MANIFEST), properties.get(SOURCE)) == (about, source.identity)
        if state.isdecimal() and is_same:
            return _Begun(int(state), True, hybrid)
        if not overwrite:
            states = {COMPLETE: "exists", WRONG: "has wrong passages"}
            what = states.get(state, "is what another push has begun")
            raise InvalidArgumentError(
                f"{address} {what}; choose another collection or pass --overwrite"
            )
    if hybrid:
        drop_words(WordCounts(address).collection)
    if collection.exists():
        collection.call("drop_collection", slow=True)
    with extra("milvus"):
        from pymilvus import DataType
    schema = collection.client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field(ROW, DataType.INT64, is_primary=True)
    schema.add_field(DOCUMENT_ID, DataType.VARCHAR, max_length=LONGEST_ID)
    for name in (NUMBER, PASSAGES, START, END):
        schema.add_field(name, DataType.INT64)
    for name in (TITLE, TEXT, BEFORE, AFTER, SECTIONS, METADATA):
        schema.add_field(name, DataType.VARCHAR, max_length=LONGEST_TEXT)
    schema.add_field(KEYS, DataType.JSON)
    schema.add_field(EMBEDDING, DataType.FLOAT_VECTOR, dim=source.manifest.dim)
    if hybrid:
        schema.add_field(WORDS, DataType.SPARSE_FLOAT_VECTOR)
    properties = {MANIFEST: about, SOURCE: source.identity, STATE: "0", MOST_VALUES: "1"}
    collection.call("create_collection", slow=True, schema=schema, properties=properties)
    return _Begun(0, False, hybrid)


def _rows(
    documents: Iterator[SplitDocument],
    embeddings: Iterator[Embeddings],
    words: WordVectors | None,
) -> Iterator[Row]:
    """The rows of all documents, in their order, with the embeddings (dim,) of all passages."""
    for document in documents:
        of_document = np.stack([*islice(embeddings, len(document.passages))])
        yield from rows_of(document, document.passages, of_document, words)


def _write(collection: Collection, rows: Iterator[Row], begun: _Begun, progress: Progress) -> None:
    """Insert the rows that are missing; note from time to time how many there are."""
    rows = islice(rows, begun.done, None)
    most, number, done = 1, 0, begun.done
    while batch := [*islice(rows, _BATCH_ROWS)]:
        # What was written after the last note is there already.
        resumed = begun.again and number < _NOTED_BATCHES
        collection.call("upsert" if resumed else "insert", slow=True, data=batch)
        done, number = done + len(batch), number + 1
        most = max(most, *map(most_values, batch))
        progress.advance(len(batch))
        if number % _NOTED_BATCHES == 0:
            _note(collection, done, most)
    _note(collection, done, most)


def _note(collection: Collection, done: int, most: int) -> None:
    known = int(collection.description()["properties"].get(MOST_VALUES, 1))
    collection.set_properties({STATE: f"{done}", MOST_VALUES: f"{max(most, known)}"})


def _make_index(collection: Collection, size: int, *, hybrid: bool) -> int:
    """Have the server index the passages; the number of lists, 1 if every row is compared."""
    lists = 1 if size <= EXACT_UP_TO else int(_LISTS_PER_ROOT * sqrt(size))
    if not collection.call("list_indexes", field_name=EMBEDDING):
        parameters = collection.client.prepare_index_params()
        parameters.add_index(
            field_name=EMBEDDING,
            index_type=_SCANNED_TYPE if lists == 1 else _LISTS_TYPE,
            metric_type="IP",
            params={} if lists == 1 else {"nlist": lists},
        )
        if hybrid:
            parameters.add_index(field_name=WORDS, index_type=_WORDS_TYPE, metric_type="IP")
        collection.call("create_index", slow=True, index_params=parameters, sync=False)
    return lists


def _await_index(collection: Collection, total: int, progress: Progress) -> None:
    """Wait until the server has indexed all rows; it may take hours."""
    progress.begin("Indexing on the server", total)
    done, state = 0, ""
    while state != "Finished":
        sleep(_SECONDS_BETWEEN_LOOKS)
        found = collection.call("describe_index", index_name=EMBEDDING)
        state = found["state"]
        if state == "Failed":
            raise IndexServerError(f"{collection.address.server} cannot index the embeddings")
        now = min(total, int(found["indexed_rows"]))
        progress.advance(max(0, now - done))
        done = max(done, now)


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


def _tuned(
    collection: Collection, lists: int, encoder: OnnxEncoder
) -> tuple[dict[str, Any], float | None]:
    """The parameters of fast and thorough searches, and what share of the nearest fast ones find.

    The queries are short spans of words, and a passage is found if it is near enough, as for an
    index on this machine.
    """
    if lists == 1:
        return {}, None
    # The order of rows, which are hashes, is random.
    sample = collection.call("query", filter="", limit=_SAMPLE, output_fields=[TEXT])
    random = np.random.default_rng(_SEED)
    queries = encode_texts(encoder, [span_of(row[TEXT], random) for row in sample])
    thorough = {"nprobe": _MOST_PROBES}
    least = np.array(_nearest(collection, queries, thorough))[:, -1]
    least -= (1 - NEAR) * np.abs(least)
    probes = 1
    while True:
        found = _nearest(collection, queries, {"nprobe": probes})
        near = np.array(found) >= least[:, np.newaxis]
        recall = float(near.mean())
        if recall >= TARGET or probes >= lists:
            return {FAST: {"nprobe": probes}, THOROUGH: thorough}, recall
        probes *= 2


def _nearest(
    collection: Collection, queries: Embeddings, parameters: dict[str, Any]
) -> list[list[float]]:
    """The scores of the nearest rows of each query, best first; -1 where one is missing."""
    found = collection.call(
        "search",
        slow=True,
        data=[*queries],
        anns_field=EMBEDDING,
        limit=_NEAREST,
        search_params={"params": parameters},
    )
    scores = ([hit.distance for hit in hits] for hits in found)
    return [each + [-1.0] * (_NEAREST - len(each)) for each in scores]
