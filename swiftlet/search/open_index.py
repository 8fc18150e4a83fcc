"""An open index: what searches see of it, and what it says without a search."""

from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any, Self

from swiftlet.address import Address
from swiftlet.arguments import number
from swiftlet.encoders.encoder import Encoder, ModelEncoder, Precision
from swiftlet.encoders.missing import MissingEncoder
from swiftlet.encoders.opening import Place, open_encoder
from swiftlet.encoders.reranker import Reranker
from swiftlet.errors import FilterError, RetrievalError
from swiftlet.index import acceptance
from swiftlet.index.columns.boosts import Boosts, parse_boosts
from swiftlet.index.columns.columns import Value
from swiftlet.index.columns.filters import Every, Filter, parse_filter
from swiftlet.index.directory import IndexDirectory
from swiftlet.index.document_encoder import WEIGHT
from swiftlet.index.parts.search_parts import IndexSource, SearchParts
from swiftlet.index.server import server_at
from swiftlet.index.synonyms import synonyms_in
from swiftlet.index.vectors.dense_scale import DenseScale, dense_scale_of
from swiftlet.index.vectors.vector_index import Synonyms
from swiftlet.manifest import Manifest, check_embedding_spaces, read_manifest
from swiftlet.search.request import DEFAULT_WEIGHT, MODES, Mode
from swiftlet.search.stages import STAGES
from swiftlet.search.stages.state import Generation
from swiftlet.types import Document


def default_weight(details: Mapping[str, Any]) -> float:
    """The default weight for an index with these details: its encoder's, or else the usual one."""
    weight: float = details.get(WEIGHT, DEFAULT_WEIGHT)
    return weight


class OpenIndex:
    """The index of a directory or a server, as it was at the last look. Thread-safe."""

    place: Path | Address | None = None
    """The directory, or the address, that was opened."""

    weight: float
    """The weight of the dense score in a hybrid search, unless a search gives another."""

    boosts: Boosts
    """What documents gain by their metadata, unless a search gives other boosts."""

    synonyms: Synonyms
    """The words that stand for a word in searches by words."""

    modes: tuple[Mode, ...]
    """The modes that this index can be searched in; the first one is the default."""

    facet_fields: tuple[str, ...]
    """The fields that `facets` counts."""

    change: int
    """The number of the last change that searches see."""

    encoder: Encoder
    index_manifest: Manifest
    _generation: Generation
    scale: DenseScale | None
    """Makes dense scores that are no cosines comparable with scores of words; None for cosines."""

    problem = ""
    """Why searches would find nothing or something wrong now, if `refresh` has found that out."""

    def __init__(
        self,
        source: IndexSource,
        encoder_manifest: Manifest,
        reranker: Reranker | None = None,
        accepted: str = "",
    ) -> None:
        """Search the index that `source` gives, which has its encoder.

        :param reranker: What searches with `rerank` are re-ranked by.
        :param accepted: The embedding space that the encoder was found to be of, by a trial.
        :raises CorruptIndexError: When the parts of the index do not belong together.
        :raises EmbeddingSpaceMismatch: When encoder and index are of different embedding spaces.
        """
        self.encoder_manifest = encoder_manifest
        self.reranker, self._accepted = reranker, accepted
        self._stages = STAGES
        self.stage_names = tuple(stage.name for stage in self._stages)
        """In the order of `SearchResult.stage_seconds`."""
        self._closed = self._behind = False
        self._checked: Manifest | None = None
        self._source = source
        self._refreshing = Lock()
        self._serve(*source.state)

    @classmethod
    def open(
        cls,
        index: Path | Address,
        encoder_place: Place | ModelEncoder | None,
        *,
        precision: Precision | None = None,
        reranker: Reranker | None = None,
        readers: int = 1,
    ) -> Self:
        """Open an index with a query encoder, or the one at a place; verifies every file of both.

        Without one, texts are searched by their words alone.

        :param index: A directory, or the address of an index on a server.
        :param reranker: What searches with `rerank` are re-ranked by.
        :param readers: How many threads will search at once; no file is opened later for them.
        :raises ManifestError: When one is of another kind or of a newer format.
        :raises CorruptArtefactError: When a file has been altered.
        :raises EmbeddingSpaceMismatch: When their embedding spaces differ.
        :raises IndexServerError: When the server of an address does not answer.
        :raises InvalidArgumentError: When there is no such collection.
        """
        of_encoder = None
        if isinstance(encoder_place, Path):
            of_encoder = read_manifest(encoder_place, "encoder")
        if isinstance(index, Path):
            manifest = read_manifest(index, "index")
        else:
            manifest = server_at(index).manifest(index)
        if of_encoder is not None and (of_encoder.vectors > 1 or of_encoder.dim != manifest.dim):
            check_embedding_spaces(of_encoder, manifest)  # the quick check comes first
        encoder: ModelEncoder | MissingEncoder = MissingEncoder(manifest)
        if encoder_place is not None:
            encoder = (
                open_encoder(encoder_place, "query", precision=precision)
                if isinstance(encoder_place, Place)
                else encoder_place
            )
            directory = index if isinstance(index, Path) else None
            encoder = acceptance.of_index(encoder, directory, manifest)
        source: IndexSource
        if isinstance(index, Path):
            source = IndexDirectory(index, encoder, readers=readers)
        else:
            source = server_at(index).source(index, encoder)
        searcher = cls(source, encoder.manifest, reranker, encoder.embedding_space)
        searcher.place = index
        return searcher

    def refresh(self) -> bool:
        """Search the index as it is now: with all changes, and after a merge; whether it is new.

        Searches that run keep what they began with. If nothing is new, this takes microseconds.

        :raises ArtefactError: When the index is damaged, or its embedding space is another one now.
            Searches of a directory go on; on a server, `problem` says why they should not.
        :raises IndexServerError: When the server that holds the index does not answer.
        :raises RetrievalError: When the searcher is closed.
        """
        with self._refreshing:
            if self._closed:
                raise RetrievalError("the searcher is closed: open the index again")
            try:
                is_new = self._source.refresh() or self._behind
                if is_new:
                    self._behind = True
                    self._serve(*self._source.state)
            except RetrievalError as error:
                self.problem = "" if self._source.keeps_state else f"{error}"
                raise
            self.problem = ""
            return is_new

    def _serve(self, parts: SearchParts, manifest: Manifest, change: int, generation: str) -> None:
        """Answer with `parts` from now on; of a base that is served already, nothing is checked."""
        fields: dict[str, Any] = {}
        if manifest is not self._checked:
            if manifest.embedding_space != self._accepted:
                check_embedding_spaces(self.encoder_manifest, manifest)
            parts.check()
            weight = manifest.details.get("weight", default_weight(manifest.details))
            facets = manifest.details.get("facets", ()) if parts.counts_values else ()
            fields = {
                "weight": number("weight", weight, least=0, most=1),
                "boosts": parse_boosts(manifest.details.get("boost", [])),
                "synonyms": synonyms_in(manifest.details),
                "modes": self._modes(parts),
                "facet_fields": tuple(facets),
                "scale": dense_scale_of(manifest),
                "encoder": parts.encoder,
                "index_manifest": manifest,
                "_checked": manifest,
            }
        fields["change"] = change
        fields["_generation"] = Generation(generation, parts, self._stages)
        fields["_behind"] = False
        vars(self).update(fields)  # when nothing can fail any more

    def _modes(self, parts: SearchParts) -> tuple[Mode, ...]:
        if parts.lexical is None:
            return ("dense",)
        by_words_first: tuple[Mode, ...] = ("lexical", "hybrid", "dense")
        return by_words_first if isinstance(parts.encoder, MissingEncoder) else MODES

    @property
    def has_encoder(self) -> bool:
        """Whether a text can become an embedding."""
        return not isinstance(self.encoder, MissingEncoder)

    @property
    def seconds_between_looks(self) -> float:
        """How often a service should `refresh`."""
        return self._source.seconds_between_looks

    @property
    def waiting_seconds(self) -> float:
        """About how long a search waits for other machines, or for a function that encodes."""
        return self.parts.waiting_seconds + getattr(self.encoder, "waiting_seconds", 0.0)

    @property
    def generation(self) -> str:
        """Names the index and its changes: searches of the same generation find the same."""
        return self._generation.name

    @property
    def parts(self) -> SearchParts:
        """The parts that searches use now."""
        return self._generation.parts

    @property
    def num_documents(self) -> int:
        """Documents in the index."""
        return self.parts.store.num_documents

    @property
    def num_passages(self) -> int:
        """Passages in the index."""
        return self.parts.store.num_passages

    @property
    def num_changed_passages(self) -> int:
        """Passages that have been put since the base was built."""
        return self.parts.num_changed_rows

    @property
    def num_tombstones(self) -> int:
        """Passages that are deleted or replaced, and take place until the next merge."""
        return self.parts.num_rows - self.parts.store.num_passages

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the metadata that a filter can name, at most 100."""
        return self.parts.fields()

    def facets(
        self,
        filter: Mapping[str, Any] | Filter | None = None,  # noqa: A002 - as in `search`
    ) -> dict[str, list[tuple[Value, int]]]:
        """For each field that was declared as a facet: its values, each with its documents' number.

        The most frequent values come first, at most 50; ties are in the order of the values.

        :param filter: Only documents that pass it are counted.
        :raises FilterError: When the filter is malformed, or names a field that no document has.
        """
        tree = Every(()) if filter is None else parse_filter(filter)
        return {**self.parts.facets(self.facet_fields, tree)}

    def document_ids(self, filter: Mapping[str, Any] | Filter) -> list[str]:  # noqa: A002
        """The ids of all documents that pass a filter, in no particular order.

        :raises FilterError: As `facets`.
        """
        return self.parts.document_ids(parse_filter(filter))

    def ids_to_delete(self, filter: Mapping[str, Any] | Filter) -> list[str]:  # noqa: A002
        """The ids of the documents that pass a filter, unless all documents pass it.

        :raises FilterError: When the filter is bad, or all documents pass it.
        """
        found = self.document_ids(filter)
        if found and len(found) == self.num_documents:
            raise FilterError(
                f"all documents ({len(found):,}) pass the filter; to delete them all, give their "
                "ids or build another index"
            )
        return found

    def document(self, document_id: str) -> Document:
        """The document with this id.

        :raises UnknownDocumentError: When there is none.
        :raises RetrievalError: When the searcher is closed.
        """
        return self.parts.store.document(document_id)

    def rest(self) -> None:
        """Close what only `refresh` needs, which opens it again: before this process is forked."""
        self._source.close()

    def close(self) -> None:
        """Close the document store; no search may be running, and none can follow."""
        self._closed = True
        self._source.close()
        self.parts.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        sizes = f"{self.num_documents:,} documents, {self.num_passages:,} passages"
        factory = self.index_manifest.details.get("factory", "")
        return f"{type(self).__name__}({sizes}, {factory})"
