"""An open index that answers queries."""

from collections.abc import Mapping
from copy import copy
from datetime import UTC, datetime
from functools import partial
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np

from swiftlet.address import Address
from swiftlet.arguments import made, number
from swiftlet.deadline import due_at
from swiftlet.encoders.encoder import Encoder, ModelEncoder, Precision
from swiftlet.encoders.missing import NO_ENCODER, MissingEncoder
from swiftlet.encoders.opening import Place, open_encoder
from swiftlet.encoders.reranker import Reranker
from swiftlet.errors import (
    ChangedMeanwhileError,
    FilterError,
    InvalidArgumentError,
    RetrievalError,
)
from swiftlet.index import acceptance
from swiftlet.index.columns.boosts import Boosts, at_day, parse_boosts
from swiftlet.index.columns.columns import Value
from swiftlet.index.columns.filters import Every, Filter, parse_filter
from swiftlet.index.directory import IndexDirectory
from swiftlet.index.document_encoder import WEIGHT
from swiftlet.index.parts.search_parts import IndexSource, SearchParts
from swiftlet.index.server import server_at
from swiftlet.index.vectors.dense_scale import DenseScale, dense_scale_of
from swiftlet.manifest import Manifest, check_embedding_spaces, read_manifest
from swiftlet.search.groups import GroupedResult, KeptEmbeddings, find_groups
from swiftlet.search.request import (
    CONTEXT_DOCUMENTS,
    CONTEXT_WEIGHT,
    DEFAULT_WEIGHT,
    MODES,
    Mode,
    RequestConflictError,
    SearchRequest,
)
from swiftlet.search.stages import STAGES
from swiftlet.search.stages.state import (
    EmbeddingCache,
    Generation,
    Reranking,
    SearchState,
    depth_and_candidates,
)
from swiftlet.types import Context, Document, Embeddings, SearchResult

_ATTEMPTS = 3
"""How often a search is tried if its documents are deleted meanwhile."""


def default_weight(details: Mapping[str, Any]) -> float:
    """The default weight for an index with these details: its encoder's, or else the usual one."""
    weight: float = details.get(WEIGHT, DEFAULT_WEIGHT)
    return weight


class Searcher:
    """Answers queries on the calling thread. Thread-safe."""

    place: Path | Address | None = None
    """The directory, or the address, that was opened."""

    weight: float
    """The weight of the dense score in a hybrid search, unless a search gives another."""

    boosts: Boosts
    """What documents gain by their metadata, unless a search gives other boosts."""

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
        encoder_place: Place | None,
        *,
        precision: Precision | None = None,
        reranker: Reranker | None = None,
        readers: int = 1,
    ) -> "Searcher":
        """Open an index with the query encoder at a place; verifies every file of both.

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
            encoder = open_encoder(encoder_place, "query", precision=precision)
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

    def search(
        self,
        query: str | SearchRequest = "",
        top_k: int = 10,
        *,
        deadline: float = inf,
        cache: EmbeddingCache | None = None,
        **options: Any,
    ) -> SearchResult:
        """The min(top_k, number of documents) best documents for a query; ties go by document_id.

        With a filter, only documents that pass it count. A lexical search gives only documents
        that share a word with the query. A result can be continued: the next `top_k` documents
        follow with `offset` = `top_k`.

        :param query: A text, or a whole request. With `embedding` (dim,), the query's place in
            the index's space, it may be left out.
        :param options: Further fields of `SearchRequest`: docs/search.md describes each.
        :param deadline: The time of `perf_counter` at which the answer is due: the re-ranker ends
            before, and documents that it has not scored follow in the order that they had. A server
            that holds the index has no more time.
        :param cache: Embeddings that this searcher's encoder made before.
        :raises QueryError: When the query is blank or not valid text.
        :raises FilterError: When the filter is malformed, or names a field that no document has.
        :raises InvalidArgumentError: When an option is out of its range, or the index cannot be
            searched in this `mode`.
        :raises RetrievalError: When the searcher is closed.
        :raises IndexServerError: When the server that holds the index does not answer in time.
        """
        request = made(SearchRequest, query, top_k=top_k, **options)
        if request.group_by is not None:
            raise InvalidArgumentError("group_by is given: call search_groups for groups")
        return self._search(request, number("deadline", deadline), cache)

    def context(
        self,
        query: str = "",
        max_tokens: int = 2_000,
        top_k: int = CONTEXT_DOCUMENTS,
        **options: Any,
    ) -> Context:
        """What answers a query, as a text for a language model, with a citation of each excerpt.

        The best passages of the `top_k` best documents, grown to whole sentences and merged, as
        many as have `max_tokens` tokens of four bytes. Arguments: as `search`.

        :raises RetrievalError: As `search`.
        """
        options |= {"format": "context", "max_tokens": max_tokens}
        found = self.search(query, top_k, **options).context
        return Context("", [], 0) if found is None else found

    def search_groups(
        self,
        query: str | SearchRequest = "",
        top_k: int = 10,
        *,
        deadline: float = inf,
        cache: EmbeddingCache | None = None,
        **options: Any,
    ) -> GroupedResult:
        """The `top_k` best groups of documents with one value of a field, or as many as there are.

        The request's `group_by` names the field. A group has its `group_size` best documents, or
        all that it has. Documents without the field belong to no group. Arguments: as `search`.

        :raises FilterError: When no document has the field, or a document has several values.
        :raises RetrievalError: As `search`.
        """
        request = made(SearchRequest, query, top_k=top_k, **options)
        if request.group_by is None:
            raise InvalidArgumentError("group_by is None, but the name of a field is expected")
        # One generation for all searches: `refresh` does not change the generation of the copy.
        pinned = copy(self)
        pinned.parts.check_groups(request.group_by, request.filter or Every(()))
        cache, deadline = KeptEmbeddings() if cache is None else cache, number("deadline", deadline)
        search = partial(pinned._search, deadline=deadline, cache=cache)  # noqa: SLF001
        return find_groups(search, request, request.group_by)

    def ranking(self, request: SearchRequest) -> str:
        """The JSON of what decides which documents a request finds, and in which order."""
        mode, weight = self._mode_of(request), self._weight_of(request)
        return request.ranking(mode, weight, self._boosts_of(request))

    def mode_of(self, asked: Mode | None) -> Mode:
        """The mode of a search for a text that asks for one, or leaves it to the index.

        :raises InvalidArgumentError: When the index cannot be searched in it.
        """
        if asked is not None and asked not in self.modes:
            raise InvalidArgumentError(
                f"mode is {asked!r}, but the index has no words: build it again with a language, "
                "push it to a server that searches words, or search it with the mode 'dense'"
            )
        return asked or self.modes[0]

    def _mode_of(self, request: SearchRequest) -> Mode:
        if request.mode is None and request.embedding is not None and "hybrid" in self.modes:
            return "hybrid"
        return self.mode_of(request.mode)

    def _weight_of(self, request: SearchRequest) -> float:
        if request.weight is not None:
            return request.weight
        is_default = self.weight == DEFAULT_WEIGHT
        return CONTEXT_WEIGHT if request.format == "context" and is_default else self.weight

    def _boosts_of(self, request: SearchRequest) -> Boosts:
        if request.fusion != "weighted":  # ranks have no scale
            return ()
        return at_day(self.boosts if request.boost is None else request.boost, datetime.now(UTC))

    def embedding_of(self, request: SearchRequest) -> Embeddings | None:
        """The embedding (dim,) that a request gives, as the index compares it.

        :raises RequestConflictError: When it is of another width than the index's, or there is
            neither an embedding nor an encoder.
        """
        if request.embedding is None:
            if not self.has_encoder and self._mode_of(request) != "lexical":
                raise RequestConflictError("query", NO_ENCODER)
            return None
        manifest = self.index_manifest
        if len(request.embedding) != manifest.dim:
            raise RequestConflictError(
                "embedding",
                f"embedding has {len(request.embedding):,} numbers, but those of the index have "
                f"{manifest.dim:,}: give one by the model that its documents were encoded by",
            )
        found = np.array(request.embedding)
        if manifest.normalised:
            found /= np.abs(found).max()  # else small numbers have squares of zero
            found /= np.linalg.norm(found)
        return found.astype(np.float32)

    def _search(
        self, request: SearchRequest, deadline: float, cache: EmbeddingCache | None
    ) -> SearchResult:
        mode, embedding = self._mode_of(request), self.embedding_of(request)
        if request.highlight == "words" and "lexical" not in self.modes:
            raise InvalidArgumentError(
                "highlight is 'words', but the index has no words: build it again with a language, "
                "push it to a server that searches words, or ask for 'sentence'"
            )
        reranking = None
        if request.rerank is not None:
            if self.reranker is None:
                raise InvalidArgumentError(
                    f"rerank is {request.rerank}, but there is no re-ranker: name its directory "
                    "with the option --reranker, as SWIFTLET_RERANKER of a service, or in "
                    "swiftlet.open"
                )
            reranking = Reranking(self.reranker, request.rerank, deadline)
        depth, num_candidates = depth_and_candidates(request, mode)
        boosts = self._boosts_of(request)
        attempts_left = _ATTEMPTS
        while True:
            attempts_left -= 1
            generation = self._generation
            search = SearchState(
                generation,
                request,
                mode,
                self._weight_of(request),
                cache,
                num_candidates=num_candidates,
                num_wanted=request.offset + request.top_k,
                depth=depth,
                reranking=reranking,
                scale=self.scale,
                boosts=boosts,
            )
            if embedding is not None:
                search.embedding = embedding
            try:
                with due_at(deadline):
                    return generation.search(search)
            except ChangedMeanwhileError:
                if not attempts_left:
                    raise

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
        details = self.index_manifest.details
        return (
            f"Searcher({self.num_documents:,} documents, {self.num_passages:,} passages, "
            f"{details.get('factory', '')})"
        )
