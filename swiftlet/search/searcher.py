"""An open index that answers queries."""

from copy import copy
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import Any

import numpy as np

from swiftlet.arguments import made, number
from swiftlet.deadline import due_at
from swiftlet.encoders.missing import NO_ENCODER
from swiftlet.errors import ChangedMeanwhileError, InvalidArgumentError
from swiftlet.index.columns.boosts import Boosts, at_day
from swiftlet.index.columns.filters import Every
from swiftlet.search.groups import GroupedResult, KeptEmbeddings, find_groups
from swiftlet.search.open_index import OpenIndex
from swiftlet.search.request import (
    CONTEXT_DOCUMENTS,
    CONTEXT_WEIGHT,
    DEFAULT_WEIGHT,
    Mode,
    RequestConflictError,
    SearchRequest,
)
from swiftlet.search.stages.state import (
    EmbeddingCache,
    Reranking,
    SearchState,
    depth_and_candidates,
)
from swiftlet.types import Context, Embeddings, SearchResult

_ATTEMPTS = 3
"""How often a search is tried if its documents are deleted meanwhile."""


class Searcher(OpenIndex):
    """Answers queries on the calling thread. Thread-safe."""

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
        that share a word with the query, and one with a `sort` only those that it puts into the
        order of a field. A result can be continued: the next `top_k` documents
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
                synonyms=self.synonyms,
            )
            if embedding is not None:
                search.embedding = embedding
            try:
                with due_at(deadline):
                    return generation.search(search)
            except ChangedMeanwhileError:
                if not attempts_left:
                    raise
