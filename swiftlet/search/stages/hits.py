"""After the best documents are known: their order by a re-ranker, their texts, their marks."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from math import inf
from time import perf_counter

import numpy as np

from swiftlet.encoders.reranker import order_by, score_of
from swiftlet.index.columns.filters import Every
from swiftlet.index.documents.passages import encoder_text
from swiftlet.search.context import packed
from swiftlet.search.stages.state import MOST_SORTED, SearchState
from swiftlet.types import Context, Hit, Span

# Time kept for the answer: at least these seconds, and at least this share of the time left.
_SECONDS_FOR_THE_ANSWER, _SHARE_FOR_THE_ANSWER = 0.002, 0.1


class Sort:
    """Puts the documents that answer into the order of a field; by their scores if they tie."""

    name = "sort"
    repeats = False

    def run(self, search: SearchState) -> bool:
        """Set the documents in their new order."""
        asked = search.request
        if asked.sort is None:
            return False
        order = search.generation.order(asked.sort, asked.filter or Every(()))
        found = search.documents.at(np.arange(min(len(search.documents.rows), MOST_SORTED)))
        search.documents = found.at(order.places(found.rows))
        search.num_wanted = min(search.num_wanted, len(found.rows))
        return True


class Rerank:
    """Scores the winning passages of the best documents, as many as the time allows."""

    name = "rerank"
    repeats = False

    def run(self, search: SearchState) -> bool:
        """Order the scored documents by both scores; documents without a score follow."""
        asked = search.reranking
        if asked is None:
            return False
        rows = search.documents.rows[: asked.top_n].tolist()
        began, longest = perf_counter(), asked.reranker.seconds
        left = asked.deadline - began
        end = asked.deadline
        if left < inf:
            end -= max(_SECONDS_FOR_THE_ANSWER, _SHARE_FOR_THE_ANSWER * left)
        logits = []
        for passage, title, _ in search.generation.parts.store.passages(rows, include_text=True):
            if began + longest > end:
                break
            text = encoder_text(title, passage.text)
            logits.append(asked.reranker.logit(search.request.query, text))
            began, longest = (now := perf_counter()), max(longest, now - began)
        both = order_by(search.documents.ordering, logits, asked.reranker.weight)
        best_first = np.argsort(-both, kind="stable")
        search.rerank_scores = [score_of(logits[place]) for place in best_first]
        others = np.arange(len(logits), len(search.documents.rows))
        search.documents = search.documents.at(np.concatenate((best_first, others)))
        return True


class Fetch:
    """Reads the winning passages and their documents' titles and metadata from the store."""

    name = "fetch"
    repeats = False

    def run(self, search: SearchState) -> bool:
        """Set the hits, or the context."""
        if search.request.format == "context":
            search.hits, search.context = [], _context(search)
            return True
        asked = slice(search.request.offset, search.num_wanted)
        found = search.documents.at(np.arange(len(search.documents.rows))[asked])
        scores, rows = found.scores.tolist(), found.rows.tolist()
        nothing: list[float | None] = [None] * len(rows)
        boosted = nothing if found.boosted is None else found.boosted.tolist()
        stored = search.generation.parts.store.passages(
            rows, include_text=search.request.include_text
        )
        new = search.rerank_scores[asked]
        search.hits = [
            Hit(
                passage.document_id,
                score,
                title,
                passage,
                metadata,
                rerank_score=rerank_score,
                boosted_score=boosted_score,
            )
            for score, boosted_score, rerank_score, (passage, title, metadata) in zip(
                scores, boosted, [*new, *nothing[len(new) :]], stored, strict=True
            )
        ]
        return True


def _context(search: SearchState) -> Context:
    """The passages of the documents that are asked for; re-ranked or sorted ones come first."""
    parts, max_tokens = search.generation.parts, search.request.max_tokens
    asked = search.documents.rows[search.request.offset : search.num_wanted]
    reranked = search.documents.rows[search.request.offset : len(search.rerank_scores)]
    ordered = reranked if search.request.sort is None else asked
    found = search.candidates.at(search.candidates.scores >= search.least_score)
    scores = dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))
    # Numbers can be compared only if they are asked for at once.
    numbers = parts.passage_to_document[np.concatenate((asked, found.rows))]
    is_asked = np.isin(numbers[len(asked) :], numbers[: len(asked)])
    found, numbers = found.at(is_asked), numbers[len(asked) :][is_asked]
    ordering = found.scores
    if search.gains is not None:
        ordering = ordering + search.gains.by_row[found.rows]
    documents, places = np.unique(numbers, return_inverse=True)
    best = np.full(len(documents), -np.inf, np.float32)
    np.maximum.at(best, places, ordering)
    best_first = np.argsort(-(ordering + _OF_DOCUMENT * best[places]), kind="stable")
    rows = [*dict.fromkeys([*ordered.tolist(), *found.rows[best_first].tolist()])]
    rows = rows[: max_tokens // _LEAST_TOKENS + 1]
    ranked = (
        (each.passage, scores[row])
        for some in (rows[at : at + _AT_ONCE] for at in range(0, len(rows), _AT_ONCE))
        for each, row in zip(parts.store.passages(some, include_text=False), some, strict=True)
    )
    return packed(ranked, parts.store.document, max_tokens)


# What a passage of a context gains by the score of its document.
_OF_DOCUMENT = np.float32(0.3)

_AT_ONCE = 40

# An excerpt has at least so many, with its citation, unless it is merged.
_LEAST_TOKENS = 8

# More than a passage has that an encoder reads whole; a passage may be a whole document.
_MOST_SENTENCES = 128
_SENTENCE = re.compile(r"\S.*?(?:[.!?…](?=\s|$)|[\u3002\uff01\uff1f]|(?=\n\s*\n)|$)", re.DOTALL)


class Highlight:
    """Marks the words of the query in each passage, or its sentence that is nearest in meaning."""

    name = "highlight"
    repeats = False

    def run(self, search: SearchState) -> bool:
        """Set the highlights of the hits, if they are asked for."""
        if search.request.highlight is None:
            return False
        marks = self._sentence if search.request.highlight == "sentence" else self._words
        search.hits = [
            replace(hit, highlights=spans)
            for hit, spans in zip(search.hits, marks(search), strict=True)
        ]
        return True

    def _words(self, search: SearchState) -> Iterator[tuple[Span, ...]]:
        query, index = search.lexical_query, search.generation.parts.lexical
        if query is None and index is not None:
            query = index.parse(search.request.query, synonyms=search.synonyms)
        for hit in search.hits:
            yield () if query is None else query.highlights(hit.passage.text)

    def _sentence(self, search: SearchState) -> Iterator[tuple[Span, ...]]:
        encoder = search.generation.parts.encoder
        if search.request.embedding is None:
            asked = encoder.encode([search.request.query])[0]
        else:
            asked = search.embedding
        for hit in search.hits:
            sentences = islice(_SENTENCE.finditer(hit.passage.text), _MOST_SENTENCES)
            spans = [found.span() for found in sentences]
            if not spans:
                yield ()
                continue
            texts = [hit.passage.text[start:end] for start, end in spans]
            yield (spans[int((encoder.encode(texts) @ asked).argmax())],)
