"""An open index that answers queries."""

from collections.abc import Mapping
from copy import copy
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any, Self

from swiftlet.retrieval.aggregation import DocumentNumbers
from swiftlet.retrieval.arguments import (
    check_fusion,
    check_options,
    checked_highlight,
    number,
    one_of,
    whole_number,
)
from swiftlet.retrieval.directory import IndexDirectory
from swiftlet.retrieval.documents import DocumentStore
from swiftlet.retrieval.embedding_space import check_embedding_spaces
from swiftlet.retrieval.encoder import Encoder, OnnxEncoder, Precision
from swiftlet.retrieval.errors import InvalidArgumentError, RetrievalError, shown
from swiftlet.retrieval.generation import Generation
from swiftlet.retrieval.index import VectorIndex
from swiftlet.retrieval.lexical.index import LexicalIndex
from swiftlet.retrieval.manifest import Manifest, read_manifest
from swiftlet.retrieval.metadata.columns import Columns, Value
from swiftlet.retrieval.metadata.facets import facet_values
from swiftlet.retrieval.metadata.filters import Every, Filter, parse_filter
from swiftlet.retrieval.metadata.grouping import (
    GroupedResult,
    OneEmbedding,
    check_single_values,
    find_groups,
)
from swiftlet.retrieval.modes import DEFAULT_WEIGHT, FUSIONS, MODES, Fusion, Highlighting, Mode
from swiftlet.retrieval.reranker import Reranker
from swiftlet.retrieval.stages import STAGES
from swiftlet.retrieval.stages.state import (
    BaseParts,
    EmbeddingCache,
    Reranking,
    SearchParts,
    SearchState,
    depth_of,
    num_candidates_for,
)
from swiftlet.retrieval.text import check_query
from swiftlet.retrieval.types import Document, SearchResult

_MOST_FIELDS = 100


class Searcher:
    """Answers queries on the calling thread. Thread-safe."""

    def __init__(
        self,
        *,
        encoder: Encoder,
        index: VectorIndex,
        lexical: LexicalIndex | None = None,
        columns: Columns | None = None,
        passage_to_document: DocumentNumbers,
        store: DocumentStore,
        index_manifest: Manifest,
        encoder_manifest: Manifest,
        reranker: Reranker | None = None,
    ) -> None:
        """Put the parts together.

        :raises CorruptIndexError: When they do not hold the same passages.
        :raises EmbeddingSpaceMismatch: When encoder and index are of different embedding spaces.
        """
        self.encoder = encoder
        self.encoder_manifest = encoder_manifest
        self.reranker = reranker
        self._stages = STAGES
        self.stage_names = tuple(stage.name for stage in self._stages)
        """In the order of `SearchResult.stage_seconds`."""
        self._closed = False
        self._behind = False
        self._directory: IndexDirectory | None = None
        self.path: Path | None = None
        """The directory that was opened."""
        self._refreshing = Lock()
        parts = BaseParts(encoder, index, lexical, columns, passage_to_document, store)
        check_embedding_spaces(encoder_manifest, index_manifest)
        parts.check()
        self._serve(parts, parts, index_manifest, 0, index_manifest.short_fingerprint)

    @classmethod
    def open(
        cls,
        index_directory: Path,
        encoder_directory: Path,
        *,
        precision: Precision | None = None,
        reranker: Reranker | None = None,
        readers: int = 1,
    ) -> "Searcher":
        """Open an index with the query encoder in `encoder_directory`; verifies every file of both.

        :param reranker: What searches with `rerank` are re-ranked by.
        :param readers: How many threads will search at once; no file is opened later for them.
        :raises ManifestError: When one is of another kind or of a newer format.
        :raises CorruptArtefactError: When a file has been altered.
        :raises EmbeddingSpaceMismatch: When their embedding spaces differ.
        """
        # The quick checks come first.
        check_embedding_spaces(
            read_manifest(encoder_directory, "encoder"), read_manifest(index_directory, "index")
        )
        encoder = OnnxEncoder.load(encoder_directory, precision=precision)
        directory = IndexDirectory(index_directory, encoder, readers=readers)
        base = directory.base
        searcher = cls(
            encoder=encoder,
            index=base.index,
            lexical=base.lexical,
            columns=base.columns,
            passage_to_document=base.passage_to_document,
            store=base.store,
            index_manifest=directory.manifest,
            encoder_manifest=encoder.manifest,
            reranker=reranker,
        )
        searcher._directory = directory
        searcher.path = index_directory
        searcher._serve(base, *directory.state)
        return searcher

    def refresh(self) -> bool:
        """Search the index as it is now: with all changes, and after a merge; whether it is new.

        Searches that run keep what they began with. If nothing is new, this takes microseconds.

        :raises ArtefactError: When the index is damaged, or its embedding space is another one now;
            then searches go on as before.
        :raises RetrievalError: When the searcher is closed.
        """
        with self._refreshing:
            directory = self._directory
            if self._closed:
                raise RetrievalError("the searcher is closed: open the index again")
            if directory is None or not (directory.refresh() or self._behind):
                return False
            self._behind = True
            check_embedding_spaces(self.encoder_manifest, directory.manifest)
            directory.base.check()
            self._serve(directory.base, *directory.state)
            return True

    def _serve(
        self,
        base: BaseParts,
        parts: SearchParts,
        manifest: Manifest,
        change: int,
        generation: str,
    ) -> None:
        """Answer with `parts` from now on."""
        self.base = base
        """The parts without the changes that a writer has made since they were built."""
        self.index = base.index
        self.index_manifest = manifest
        self.modes: tuple[Mode, ...] = MODES if base.lexical is not None else ("dense",)
        """The modes that this index can be searched in; the first one is the default."""
        weight = manifest.details.get("weight", DEFAULT_WEIGHT)
        self.weight = number("weight", weight, least=0, most=1)
        """The weight of the dense score in a hybrid search, unless a search gives another one."""
        facets = () if base.columns is None else manifest.details.get("facets", ())
        self.facet_fields: tuple[str, ...] = tuple(facets)
        """The fields that `facets` counts."""
        self.change = change
        """The number of the last change that searches see."""
        self._generation = Generation(generation, parts, self._stages)
        self._behind = False

    @property
    def generation(self) -> str:
        """Names the index and its changes: searches of the same generation find the same."""
        return self._generation.name

    @property
    def num_documents(self) -> int:
        """Documents in the index."""
        return self._generation.parts.store.num_documents

    @property
    def num_passages(self) -> int:
        """Passages in the index."""
        return self._generation.parts.store.num_passages

    @property
    def num_changed_passages(self) -> int:
        """Passages that have been put since the base was built."""
        return self._generation.parts.num_rows - self.index.size

    @property
    def num_tombstones(self) -> int:
        """Passages that are deleted or replaced, and take place until the next merge."""
        parts = self._generation.parts
        return parts.num_rows - parts.store.num_passages

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the metadata that a filter can name, at most 100."""
        parts = self._generation.parts
        found = parts.passing_documents(Every(())) if parts.columns is not None else ()
        names = {name for columns, _ in found for name in islice(columns.fields(), _MOST_FIELDS)}
        return tuple(sorted(names)[:_MOST_FIELDS])

    def search(
        self,
        query: str,
        top_k: int = 10,
        *,
        mode: Mode | None = None,
        weight: float | None = None,
        fusion: Fusion = "weighted",
        filter: Mapping[str, Any] | Filter | None = None,  # noqa: A002 - the name that HTTP has
        offset: int = 0,
        min_score: float | None = None,
        include_text: bool = True,
        highlight: Highlighting | None = None,
        rerank: int | None = None,
        deadline: float = inf,
        cache: EmbeddingCache | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> SearchResult:
        """The min(top_k, number of documents) best documents for `query`; ties go by document_id.

        With a filter, only documents that pass it count. A lexical search gives only documents
        that share a word with the query. A result can be continued: the next `top_k` documents
        follow with `offset` = `top_k`.

        :param query: Any text; one that `check_query` returned is not checked again.
        :param mode: "hybrid", "dense" or "lexical"; None takes the first of `modes`.
        :param weight: The weight of the dense score in a hybrid search, from 0 to 1; None takes
            that of the index.
        :param fusion: "weighted", or "rrf" for reciprocal rank fusion, which takes no weight and no
            offset.
        :param filter: Conditions on the documents' metadata; docs/search.md has their language.
            One that `parse_filter` returned is not parsed again.
        :param offset: How many of the best documents to leave out.
        :param min_score: Leave out documents with a lower score.
        :param highlight: Mark the "words" of the query in each passage, or the "sentence" that is
            nearest in meaning; it takes about as long as encoding every sentence as a query.
        :param rerank: Order this many of the best documents by the re-ranker.
        :param deadline: The time of `perf_counter` at which the answer is due: the re-ranker ends
            before, and documents that it has not scored follow in the order that they had.
        :param cache: Embeddings that this searcher's encoder made before.
        :param options: Values for stages that take some, by the name of the stage.
        :raises QueryError: When the query is blank or not valid text.
        :raises FilterError: When the filter is malformed, or names a field that no document has.
        :raises InvalidArgumentError: When an argument is out of its range, the index cannot be
            searched in this `mode`, or `options` name no stage.
        :raises RetrievalError: When the searcher is closed.
        :raises RuntimeError: When a stage after the filters has left out hits that are wanted, or
            ordered them otherwise than by their scores.
        """
        query = check_query(query)
        top_k = whole_number("top_k", top_k, least=1)
        mode = self.modes[0] if mode is None else self.check_mode(mode)
        fusion = one_of("fusion", fusion, FUSIONS)
        offset = whole_number("offset", offset, least=0)
        check_fusion(fusion, weight, offset)
        depth = depth_of(offset, top_k)
        reranking = self._reranking(rerank, number("deadline", deadline))
        if reranking is not None:
            depth = max(depth, reranking.top_n)
        if options:
            check_options(options, self.stage_names)
        search = SearchState(
            query=query,
            filter=None if filter is None else parse_filter(filter),
            offset=offset,
            min_score=-inf if min_score is None else number("min_score", min_score),
            include_text=include_text,
            highlight=checked_highlight(highlight, include_text, self.modes),
            mode=mode,
            fusion=fusion,
            weight=self.weight if weight is None else number("weight", weight, least=0, most=1),
            cache=cache,
            options=options or {},
            num_candidates=num_candidates_for(depth, mode),
            num_wanted=offset + top_k,
            depth=depth,
            reranking=reranking,
        )
        return self._generation.search(search)

    def search_groups(
        self,
        query: str,
        top_k: int = 10,
        *,
        group_by: str,
        group_size: int = 3,
        filter: Mapping[str, Any] | Filter | None = None,  # noqa: A002 - as in `search`
        cache: EmbeddingCache | None = None,
        **options: Any,
    ) -> GroupedResult:
        """The `top_k` best groups of documents with one value of a field, or as many as there are.

        A group has its `group_size` best documents, or all that it has. Documents without the
        field belong to no group.

        :param group_by: A field of which each document has one value at most; a field of a nested
            object is named by its path, "author.name".
        :param options: As `search` has them, except `offset` and `rerank`.
        :raises FilterError: When no document has the field, or a document has several values.
        :raises RetrievalError: As `search`.
        """
        top_k = whole_number("top_k", top_k, least=1)
        group_size = whole_number("group_size", group_size, least=1)
        if not isinstance(group_by, str):
            raise InvalidArgumentError(
                f"group_by is {shown(group_by)}, but the name of a field is expected"
            )
        for name in ("offset", "rerank"):
            if name in options:
                raise InvalidArgumentError(f"a search for groups takes no {name}")
        passing = Every(()) if filter is None else parse_filter(filter)
        # One generation for all searches: `refresh` does not change that of the copy.
        pinned = copy(self)
        parts = pinned._generation.parts.passing_documents(passing)  # noqa: SLF001 - a copy
        check_single_values(group_by, parts)
        cache = OneEmbedding() if cache is None else cache
        search = partial(pinned.search, query, cache=cache, **options)
        return find_groups(search, group_by, passing, count=top_k, size=group_size)

    def _reranking(self, rerank: object, deadline: float) -> Reranking | None:
        if rerank is None:
            return None
        top_n = whole_number("rerank", rerank, least=1)
        if self.reranker is None:
            raise InvalidArgumentError(
                f"rerank is {top_n}, but there is no re-ranker: name its directory with the option "
                "--reranker, as SWIFTLET_RERANKER of a service, or in swiftlet.open"
            )
        return Reranking(self.reranker, top_n, deadline)

    def check_mode(self, mode: object) -> Mode:
        """The mode, if the index can be searched in it.

        :raises InvalidArgumentError: When it cannot, or there is no such mode.
        """
        found = one_of("mode", mode, MODES)
        if found not in self.modes:
            raise InvalidArgumentError(
                f"mode is {mode!r}, but the index was built without words: build it again with a "
                "language, or search it with the mode 'dense'"
            )
        return found

    def facets(
        self,
        filter: Mapping[str, Any] | Filter | None = None,  # noqa: A002 - as in `search`
    ) -> dict[str, list[tuple[Value, int]]]:
        """For each field that was declared as a facet: its values, each with its documents' number.

        The most frequent values come first, at most 50; ties are in the order of the values.

        :param filter: Only documents that pass it are counted.
        :raises FilterError: When the filter is malformed, or names a field that no document has.
        """
        parts = self._generation.parts
        if parts.columns is None:
            return {}
        found = parts.passing_documents(Every(()) if filter is None else parse_filter(filter))
        return {field: facet_values(field, found) for field in self.facet_fields}

    def document_ids(self, filter: Mapping[str, Any] | Filter) -> list[str]:  # noqa: A002
        """The ids of all documents that pass a filter, in no particular order.

        :raises FilterError: As `facets`.
        """
        return self._generation.parts.document_ids(parse_filter(filter))

    def document(self, document_id: str) -> Document:
        """The document with this id.

        :raises UnknownDocumentError: When there is none.
        :raises RetrievalError: When the searcher is closed.
        """
        return self._generation.parts.store.document(document_id)

    def close(self) -> None:
        """Close the document store; no search may be running, and none can follow."""
        self._closed = True
        if self._directory is not None:
            self._directory.close()
        self._generation.parts.store.close()

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
