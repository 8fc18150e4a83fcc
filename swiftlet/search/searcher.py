"""An open index that answers queries."""

from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from functools import partial
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any, Self

from swiftlet.address import Address
from swiftlet.arguments import (
    check_fusion,
    check_options,
    checked_highlight,
    number,
    one_of,
    whole_number,
)
from swiftlet.deadline import due_at
from swiftlet.embedding_space import check_embedding_spaces
from swiftlet.encoders.encoder import OnnxEncoder, Precision
from swiftlet.encoders.reranker import Reranker
from swiftlet.errors import (
    ChangedMeanwhileError,
    InvalidArgumentError,
    RetrievalError,
    shown,
)
from swiftlet.index.columns.columns import Value
from swiftlet.index.columns.filters import Every, Filter, parse_filter
from swiftlet.index.columns.grouping import (
    GroupedResult,
    OneEmbedding,
    find_groups,
)
from swiftlet.index.directory import IndexDirectory
from swiftlet.index.parts import IndexSource, SearchParts
from swiftlet.index.server import server_at
from swiftlet.manifest import Manifest, read_manifest
from swiftlet.search.generation import Generation
from swiftlet.search.modes import DEFAULT_WEIGHT, FUSIONS, MODES, Fusion, Highlighting, Mode
from swiftlet.search.stages import STAGES
from swiftlet.search.stages.state import (
    EmbeddingCache,
    Reranking,
    SearchState,
    depth_of,
    num_candidates_for,
)
from swiftlet.text import check_query
from swiftlet.types import Document, SearchResult

_ATTEMPTS = 3
"""How often a search is tried if its documents are deleted meanwhile."""


class Searcher:
    """Answers queries on the calling thread. Thread-safe."""

    place: Path | Address | None = None
    """The directory, or the address, that was opened."""

    problem = ""
    """Why searches would find nothing or something wrong now, if `refresh` has found that out."""

    def __init__(
        self, source: IndexSource, encoder_manifest: Manifest, reranker: Reranker | None = None
    ) -> None:
        """Search the index that `source` gives, which has its encoder.

        :param reranker: What searches with `rerank` are re-ranked by.
        :raises CorruptIndexError: When the parts of the index do not belong together.
        :raises EmbeddingSpaceMismatch: When encoder and index are of different embedding spaces.
        """
        self.encoder_manifest = encoder_manifest
        self.reranker = reranker
        self._stages = STAGES
        self.stage_names = tuple(stage.name for stage in self._stages)
        """In the order of `SearchResult.stage_seconds`."""
        self._closed = False
        self._behind = False
        self._source = source
        self._refreshing = Lock()
        self._serve(*source.state)

    @classmethod
    def open(
        cls,
        index: Path | Address,
        encoder_directory: Path,
        *,
        precision: Precision | None = None,
        reranker: Reranker | None = None,
        readers: int = 1,
    ) -> "Searcher":
        """Open an index with the query encoder in `encoder_directory`; verifies every file of both.

        :param index: A directory, or the address of an index on a server.
        :param reranker: What searches with `rerank` are re-ranked by.
        :param readers: How many threads will search at once; no file is opened later for them.
        :raises ManifestError: When one is of another kind or of a newer format.
        :raises CorruptArtefactError: When a file has been altered.
        :raises EmbeddingSpaceMismatch: When their embedding spaces differ.
        :raises IndexServerError: When the server of an address does not answer.
        :raises InvalidArgumentError: When there is no such collection.
        """
        of_encoder = read_manifest(encoder_directory, "encoder")
        if isinstance(index, Path):  # the quick check comes first
            check_embedding_spaces(of_encoder, read_manifest(index, "index"))
        encoder = OnnxEncoder.load(encoder_directory, precision=precision, role="query")
        source: IndexSource
        if isinstance(index, Path):
            source = IndexDirectory(index, encoder, readers=readers)
        else:
            source = server_at(index).source(index, encoder)
        searcher = cls(source, encoder.manifest, reranker)
        searcher.place = index
        return searcher

    def refresh(self) -> bool:
        """Search the index as it is now: with all changes, and after a merge; whether it is new.

        Searches that run keep what they began with. If nothing is new, this takes microseconds.

        :raises ArtefactError: When the index is damaged, or its embedding space is another one now.
            Searches of a directory go on as before; of others, `problem` says why they should not.
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
        """Answer with `parts` from now on."""
        check_embedding_spaces(self.encoder_manifest, manifest)
        parts.check()
        self.encoder = parts.encoder
        self.index_manifest = manifest
        self.modes: tuple[Mode, ...] = MODES if parts.lexical is not None else ("dense",)
        """The modes that this index can be searched in; the first one is the default."""
        weight = manifest.details.get("weight", DEFAULT_WEIGHT)
        self.weight = number("weight", weight, least=0, most=1)
        """The weight of the dense score in a hybrid search, unless a search gives another one."""
        facets = manifest.details.get("facets", ()) if parts.counts_values else ()
        self.facet_fields: tuple[str, ...] = tuple(facets)
        """The fields that `facets` counts."""
        self.change = change
        """The number of the last change that searches see."""
        self._generation = Generation(generation, parts, self._stages)
        self._behind = False

    @property
    def seconds_between_looks(self) -> float:
        """How often a service should `refresh`."""
        return self._source.seconds_between_looks

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
            before, and documents that it has not scored follow in the order that they had. A server
            that holds the index has no more time.
        :param cache: Embeddings that this searcher's encoder made before.
        :param options: Values for stages that take some, by the name of the stage.
        :raises QueryError: When the query is blank or not valid text.
        :raises FilterError: When the filter is malformed, or names a field that no document has.
        :raises InvalidArgumentError: When an argument is out of its range, the index cannot be
            searched in this `mode`, or `options` name no stage.
        :raises RetrievalError: When the searcher is closed.
        :raises RuntimeError: When a stage after the filters has left out hits that are wanted, or
            ordered them otherwise than by their scores.
        :raises IndexServerError: When the server that holds the index does not answer in time.
        """
        query = check_query(query)
        top_k = whole_number("top_k", top_k, least=1)
        mode = self.modes[0] if mode is None else self.check_mode(mode)
        fusion = one_of("fusion", fusion, FUSIONS)
        offset = whole_number("offset", offset, least=0)
        check_fusion(fusion, weight, offset)
        depth = depth_of(offset, top_k)
        deadline = number("deadline", deadline)
        reranking = self._reranking(rerank, deadline)
        if reranking is not None:
            depth = max(depth, reranking.top_n)
        if options:
            check_options(options, self.stage_names)
        new_search = partial(
            SearchState,
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
        for _ in range(_ATTEMPTS - 1):
            with suppress(ChangedMeanwhileError), due_at(deadline):
                return self._generation.search(new_search())
        with due_at(deadline):
            return self._generation.search(new_search())

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
        pinned.parts.check_groups(group_by, passing)
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
                f"mode is {mode!r}, but the index has no words: build it again with a language, "
                "push it to a server that searches words, or search it with the mode 'dense'"
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
        tree = Every(()) if filter is None else parse_filter(filter)
        return {**self.parts.facets(self.facet_fields, tree)}

    def document_ids(self, filter: Mapping[str, Any] | Filter) -> list[str]:  # noqa: A002
        """The ids of all documents that pass a filter, in no particular order.

        :raises FilterError: As `facets`.
        """
        return self.parts.document_ids(parse_filter(filter))

    def document(self, document_id: str) -> Document:
        """The document with this id.

        :raises UnknownDocumentError: When there is none.
        :raises RetrievalError: When the searcher is closed.
        """
        return self.parts.store.document(document_id)

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
