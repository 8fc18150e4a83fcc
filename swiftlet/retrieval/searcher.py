"""An open index that answers queries, stage by stage."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, Self

from swiftlet.retrieval.aggregation import DocumentNumbers
from swiftlet.retrieval.arguments import number, one_of, whole_number
from swiftlet.retrieval.columns import Columns, Value
from swiftlet.retrieval.directory import IndexDirectory
from swiftlet.retrieval.documents import DocumentStore
from swiftlet.retrieval.embedding_space import check_embedding_spaces
from swiftlet.retrieval.encoder import Encoder, OnnxEncoder, Precision
from swiftlet.retrieval.errors import (
    CorruptIndexError,
    InvalidArgumentError,
    RetrievalError,
    shown,
)
from swiftlet.retrieval.facets import facet_values
from swiftlet.retrieval.filters import Every, Filter, parse_filter
from swiftlet.retrieval.grouping import (
    GroupedResult,
    OneEmbedding,
    check_single_values,
    find_groups,
)
from swiftlet.retrieval.index import VectorIndex
from swiftlet.retrieval.lexical import LexicalIndex
from swiftlet.retrieval.manifest import Manifest, read_manifest
from swiftlet.retrieval.modes import (
    DEFAULT_WEIGHT,
    FUSIONS,
    HIGHLIGHTINGS,
    MODES,
    Fusion,
    Highlighting,
    Mode,
)
from swiftlet.retrieval.stages import STAGES
from swiftlet.retrieval.stages.state import (
    BaseParts,
    EmbeddingCache,
    SearchParts,
    SearchState,
    Stage,
    num_candidates_for,
)
from swiftlet.retrieval.text import check_query
from swiftlet.retrieval.types import Document, Hit

_FINGERPRINT_CHARACTERS = 16
_MOST_FIELDS = 100
_WIDENING = 4
"""The factor by which the candidates grow while a search is not complete."""


@dataclass(frozen=True, slots=True, repr=False)
class SearchResult:
    """The hits of a search, best document first.

    `stage_seconds` has one number for each of `STAGE_NAMES`: 0.0 where a stage had nothing to do.
    `cached` is true when the query's embedding came from the cache. `generation` is that of the
    index (`Searcher.generation`).
    """

    hits: list[Hit]
    stage_seconds: tuple[float, ...]
    cached: bool = False
    generation: str = ""

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, rank: int) -> Hit:
        return self.hits[rank]

    def __repr__(self) -> str:
        hits = "hit" if len(self.hits) == 1 else "hits"
        lines = [f"{len(self.hits)} {hits} in {1000 * sum(self.stage_seconds):.2f} ms"]
        lines += [f"{rank:>3}  {hit!r}" for rank, hit in enumerate(self.hits, start=1)]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Generation:
    """What all stages of a search see: the index at one moment."""

    name: str
    parts: SearchParts
    stages: tuple[Stage, ...]


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
    ) -> None:
        """Put the parts together.

        :raises CorruptIndexError: When they do not hold the same passages.
        :raises EmbeddingSpaceMismatch: When encoder and index are of different embedding spaces.
        """
        self.encoder = encoder
        self.encoder_manifest = encoder_manifest
        self._stages = STAGES
        self.stage_names = tuple(stage.name for stage in self._stages)
        """In the order of `SearchResult.stage_seconds`."""
        repeating = [number for number, stage in enumerate(self._stages) if stage.repeats]
        self._repeat_start, self._repeat_end = repeating[0], repeating[-1] + 1
        self._closed = False
        self._behind = False
        self._directory: IndexDirectory | None = None
        self.path: Path | None = None
        """The directory that was opened."""
        self._refreshing = Lock()
        parts = BaseParts(encoder, index, lexical, columns, passage_to_document, store)
        self._check(parts, index_manifest)
        self._serve(parts, parts, index_manifest, 0)

    @classmethod
    def open(
        cls,
        index_directory: Path,
        encoder_directory: Path,
        *,
        precision: Precision | None = None,
        readers: int = 1,
    ) -> "Searcher":
        """Open an index with the query encoder in `encoder_directory`; verifies every file of both.

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
        )
        searcher._directory = directory
        searcher.path = index_directory
        searcher._serve(base, directory.parts, directory.manifest, directory.change)
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
            self._check(directory.base, directory.manifest)
            self._serve(directory.base, directory.parts, directory.manifest, directory.change)
            return True

    def _check(self, base: BaseParts, manifest: Manifest) -> None:
        check_embedding_spaces(self.encoder_manifest, manifest)
        store, index, lexical = base.store, base.index, base.lexical
        words = store.num_passages if lexical is None else lexical.size
        counts = index.size, len(base.passage_to_document), store.num_passages, words
        if len(set(counts)) != 1 or index.dim != self.encoder.dim:
            raise CorruptIndexError(
                "the parts of the index do not belong together: "
                f"{counts[0]} embeddings of {index.dim} dimensions, {counts[1]} passages in the "
                f"map, {counts[2]} in the store and {counts[3]} in the lexical index, for an "
                f"encoder of {self.encoder.dim} dimensions"
            )

    def _serve(self, base: BaseParts, parts: SearchParts, manifest: Manifest, change: int) -> None:
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
        name = manifest.fingerprint[:_FINGERPRINT_CHARACTERS]
        name += f".{change}" if parts is not base else ""
        self._generation = _Generation(name, parts, tuple(stage(parts) for stage in self._stages))
        self._behind = False

    @property
    def generation(self) -> str:
        """The beginning of the index's fingerprint; with changes, the number of the last one."""
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
        if fusion != "weighted" and (weight is not None or offset):
            # The ranks, and so the order, depend on how many documents are asked for.
            name = "offset" if weight is None else "weight"
            raise InvalidArgumentError(
                f"fusion is {shown(fusion)}, which takes no {name}: give one of the two"
            )
        if options:
            self._check_options(options)
        search = SearchState(
            query=query,
            filter=None if filter is None else parse_filter(filter),
            offset=offset,
            min_score=-inf if min_score is None else number("min_score", min_score),
            include_text=include_text,
            highlight=self._checked_highlight(highlight, include_text),
            mode=mode,
            fusion=fusion,
            weight=self.weight if weight is None else number("weight", weight, least=0, most=1),
            cache=cache,
            options=options or {},
            num_candidates=num_candidates_for(offset + top_k, mode),
            num_wanted=offset + top_k,
        )
        generation = self._generation
        seconds = self._run(search, generation.stages)
        num_hits = max(0, search.num_wanted - offset)
        if len(search.hits) != num_hits:
            raise RuntimeError(
                f"one of the stages {', '.join(self.stage_names)} has changed the number of hits "
                f"from {num_hits} to {len(search.hits)}: a stage that leaves documents "
                "out repeats, and comes before `aggregate`"
            )
        scores = [hit.score for hit in search.hits]
        if scores != sorted(scores, reverse=True):
            raise RuntimeError(
                f"one of the stages {', '.join(self.stage_names)} has put the hits into another "
                "order than their scores: a stage that ranks sets the scores, too"
            )
        return SearchResult(search.hits, seconds, search.cached, generation.name)

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
        :param options: As `search` has them, except `offset`.
        :raises FilterError: When no document has the field, or a document has several values.
        :raises RetrievalError: As `search`.
        """
        top_k = whole_number("top_k", top_k, least=1)
        group_size = whole_number("group_size", group_size, least=1)
        if not isinstance(group_by, str):
            raise InvalidArgumentError(
                f"group_by is {shown(group_by)}, but the name of a field is expected"
            )
        if "offset" in options:
            raise InvalidArgumentError("a search for groups takes no offset")
        passing = Every(()) if filter is None else parse_filter(filter)
        # One generation for all searches: `refresh` does not change that of the copy.
        pinned = copy(self)
        parts = pinned._generation.parts.passing_documents(passing)  # noqa: SLF001 - a copy
        check_single_values(group_by, parts)
        cache = OneEmbedding() if cache is None else cache
        search = partial(pinned.search, query, cache=cache, **options)
        return find_groups(search, group_by, passing, count=top_k, size=group_size)

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

    def _checked_highlight(self, highlight: object, include_text: bool) -> Highlighting | None:
        if highlight is None:
            return None
        found = one_of("highlight", highlight, HIGHLIGHTINGS)
        if not include_text:
            raise InvalidArgumentError(
                f"highlight is {found!r}, but passages without their text have nothing to mark"
            )
        if found == "words" and "lexical" not in self.modes:
            raise InvalidArgumentError(
                f"highlight is {found!r}, but the index was built without words: build it again "
                "with a language, or ask for 'sentence'"
            )
        return found

    def _check_options(self, options: Mapping[str, Any]) -> None:
        if not isinstance(options, Mapping):
            raise InvalidArgumentError(
                f"options is {shown(options)}, but a mapping of stage names to values is expected"
            )
        if unknown := [name for name in options if name not in self.stage_names]:
            raise InvalidArgumentError(
                f"options name {shown(unknown[0])}, but the stages are "
                f"{', '.join(self.stage_names)}"
            )

    def _run(self, search: SearchState, stages: Sequence[Stage]) -> tuple[float, ...]:
        """Run the stages, those that repeat until the search is complete; seconds of each."""
        seconds = [0.0] * len(stages)
        last = perf_counter()
        position = 0
        while position < len(stages):
            had_work = stages[position].run(search)
            now = perf_counter()
            if had_work:
                seconds[position] += now - last
            last = now
            position += 1
            if position == self._repeat_end:
                if search.is_complete:
                    # Filters and lexical searches leave fewer documents.
                    search.num_wanted = min(search.num_wanted, len(search.documents.rows))
                else:
                    search.num_candidates *= _WIDENING
                    position = self._repeat_start
        return tuple(seconds)

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
