"""What is done with indexes on a Milvus server; one is followed while other programs write."""

from collections.abc import Mapping
from time import monotonic
from typing import Any

from typing_extensions import override

from swiftlet.address import Address
from swiftlet.encoders.encoder import Encoder
from swiftlet.errors import IndexServerError, InvalidArgumentError
from swiftlet.index.lexical.analysis import analysis_in
from swiftlet.index.parts import SearchParts
from swiftlet.index.server import Description, Server
from swiftlet.manifest import Manifest
from swiftlet.servers.milvus.collection import (
    METRIC,
    Collection,
    index_of,
    manifest_of,
    parameters_of,
)
from swiftlet.servers.milvus.corpus import MilvusCorpus
from swiftlet.servers.milvus.filter_fields import FilterFields
from swiftlet.servers.milvus.parts import MilvusParts, MilvusPassages
from swiftlet.servers.milvus.schema import FAST, MANIFEST, NUMBER
from swiftlet.servers.milvus.target import MilvusTarget
from swiftlet.servers.milvus.words import MilvusWords, WordCounts, WordStatistics
from swiftlet.servers.milvus.writer import MilvusWriter
from swiftlet.servers.parts import ServerIndex

_SECONDS_TO_LOAD = 60.0
_VISITED = {"nprobe": "lists", "ef": "passages of a graph"}


class MilvusIndex(ServerIndex):
    """The parts of a collection as it is now, which the server loads into its memory."""

    def __init__(self, address: Address, encoder: Encoder) -> None:
        self._encoder = encoder
        self.collection = Collection(address)
        self._failed = False
        self._answers_since: float | None = None
        self._statistics: WordStatistics | None = None
        self._counts: WordCounts | None = None
        self._open()

    @property
    @override
    def state(self) -> tuple[SearchParts, Manifest, int, str]:
        name = f"{self.manifest.short_fingerprint}.{self._parts.store.num_passages}"
        return self._parts, self.manifest, 0, name

    @override
    def refresh(self) -> bool:
        # After it was away, the server may have to load the collection again.
        failed, self._failed = self._failed, True
        changed = failed or self._look() != self._seen
        if failed:
            self._wait_for_passages()
        if changed:
            self._open()
        self._failed, self._answers_since = False, None
        return changed

    def _look(self) -> tuple[int, Mapping[str, str], int]:
        """What changes when the collection does."""
        description = self.collection.description()
        size = self.collection.count()
        return description["collection_id"], description["properties"], size

    def _wait_for_passages(self) -> None:
        """Load the collection again.

        A server that has lost some of its nodes answers before it has loaded their passages: with
        2.3.5, it found nothing for 12 s.

        :raises IndexServerError: While the same collection has fewer passages than before, for a
            minute at most, since other programs may have deleted passages.
        """
        self.collection.call("load_collection", slow=True)
        collection_id, properties, size = self._look()
        before_id, before_properties, before = self._seen
        self._answers_since = self._answers_since or monotonic()
        if (
            collection_id == before_id
            and properties[MANIFEST] == before_properties[MANIFEST]
            and size < before
            and monotonic() < self._answers_since + _SECONDS_TO_LOAD
        ):
            raise IndexServerError(
                f"{self.collection.address} has {size} of {before} passages since it was "
                f"away; searches go on with fewer after {_SECONDS_TO_LOAD:.0f} s"
            )

    def _open(self) -> None:
        collection = self.collection
        description = collection.description()
        self.manifest = manifest_of(description, collection.address)
        if (metric := index_of(collection)["metric_type"]) != METRIC:
            raise InvalidArgumentError(
                f"{collection.address} is searched by {metric}, but by {METRIC} is expected: push "
                "the index again with --overwrite"
            )
        collection.call("load_collection", slow=True)
        counts = collection.count(f"{NUMBER} == 0"), collection.count()
        passages = MilvusPassages(collection, parameters_of(description), counts)
        self._parts = MilvusParts(
            encoder=self._encoder,
            index=passages,
            passage_to_document=passages,
            store=passages,
            lexical=self._words(description["properties"], passages),
            address=collection.address,
            dim=self.manifest.dim,
            filter_fields=FilterFields.of(description["properties"]),
        )
        self._seen = self._look()
        collection.is_open = True

    def _words(self, properties: Mapping[str, Any], passages: MilvusPassages) -> MilvusWords | None:
        """The words of the passages, if the collection has them."""
        if (statistics := WordStatistics.of(properties)) is None:
            return None
        if self._statistics != statistics or self._counts is None:  # a push has counted again
            self._statistics, self._counts = statistics, WordCounts(self.collection.address)
        self._counts.collection.call("load_collection", slow=True)
        analysis = analysis_in(self.manifest.details)
        return MilvusWords(passages, analysis, statistics.size, self._counts)


def manifest_at(address: Address) -> Manifest:
    """The manifest of the index at an address."""
    return manifest_of(Collection(address).description(), address)


def describe(address: Address) -> Description:
    """What there is at an address."""
    collection = Collection(address)
    found = collection.description()
    manifest = manifest_of(found, address)
    collection.call("load_collection", slow=True)
    documents, passages = (collection.count(each, exactly=True) for each in (f"{NUMBER} == 0", ""))
    has_words = WordStatistics.of(found["properties"]) is not None
    fast = {_VISITED[name]: value for name, value in parameters_of(found).get(FAST, {}).items()}
    return Description(manifest, documents, passages, has_words, fast)


SERVER = Server(
    source=MilvusIndex,
    manifest=manifest_at,
    description=describe,
    writer=MilvusWriter,
    target=MilvusTarget,
    corpus=MilvusCorpus,
)
