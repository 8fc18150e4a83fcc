"""The types that all parts share: documents, passages, queries, hits and results."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Embeddings = NDArray[np.float32]
"""Embeddings, (n, dim), or one embedding, (dim,)."""

Run = dict[str, dict[str, float]]
"""The results of a retriever: query_id -> document_id -> score."""

Qrels = dict[str, dict[str, int]]
"""The known relevance of documents: query_id -> document_id -> grade."""

Span = tuple[int, int]
"""A half-open range of character positions, [start, end)."""

_SHOWN_CHARACTERS = 80


class Section(NamedTuple):
    """A span of a document's text, and the path of the headings that it stands under."""

    start: int
    end: int
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A unit of retrieval as its corpus gives it.

    `sections` are the parts of `text` that passages are cut from, in order and without overlap; no
    passage crosses from one into the next. Spans become sections without a heading. Empty means
    that the whole text is one section.
    """

    document_id: str
    text: str
    title: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)
    sections: tuple[Section, ...] = ()

    def __post_init__(self) -> None:
        sections = tuple(Section(*each) for each in self.sections)
        object.__setattr__(self, "sections", sections)

    def passage(self, number: int, start: int, end: int) -> "Passage":
        """The passage with this number, which is a span of the text."""
        name, heading = f"{self.document_id}#{number}", self.heading_at(start)
        return Passage(name, self.document_id, self.text[start:end], start, end, heading)

    def heading_at(self, place: int) -> str:
        """The headings above a place in the text."""
        number = bisect_right(self.sections, place, key=itemgetter(0)) - 1
        return self.sections[number].heading if number >= 0 else ""


@dataclass(frozen=True, slots=True)
class EmbeddedDocument(Document):
    """A document of one passage, whose embedding (dim,) was made elsewhere."""

    embedding: Sequence[float] = ()

    @property
    def plain(self) -> Document:
        """The document without its embedding."""
        return Document(self.document_id, self.text, self.title, self.metadata, self.sections)


FRONT_MATTER_LINES = "front_matter_lines"
"""The field of the metadata with how many lines of the file stand before the text."""


@dataclass(frozen=True, slots=True)
class Query:
    """The text and the id of a query."""

    query_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document that is encoded as one: `text == document.text[start:end]`.

    `heading` is the path of the headings that it stands under, "Install > Linux".
    """

    passage_id: str
    document_id: str
    text: str
    start: int
    end: int
    heading: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Hit:
    """A document found for a query, with the passage that gave it its score (maxP).

    `highlights` are spans of the passage's text. `rerank_score`, from 0 to 1, is the
    re-ranker's score, if it has scored the passage. `boosted_score` is the score with what a boost
    adds, if there is one; the order is by it.
    """

    document_id: str
    score: float
    title: str
    passage: Passage
    metadata: Mapping[str, object]
    highlights: tuple[Span, ...] = ()
    rerank_score: float | None = None
    boosted_score: float | None = None

    def __repr__(self) -> str:
        text = " ".join(self.passage.text[:_SHOWN_CHARACTERS].split())
        more = " …" if len(self.passage.text) > _SHOWN_CHARACTERS else ""
        title = f"  {self.title}" if self.title else ""
        score = self.score if self.rerank_score is None else self.rerank_score
        return f"{score:.4f}  {self.document_id}{title}: {text}{more}"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a document that was found: `text == document.text[start:end]`.

    It stands in the lines `first_line` to `last_line`, counted from 1 with the `front_matter_lines`
    of the metadata. `score` is the score of its best passage.
    """

    document_id: str
    title: str
    heading: str
    start: int
    end: int
    first_line: int
    last_line: int
    text: str
    score: float


@dataclass(frozen=True, slots=True, repr=False)
class Context:
    """What a search found, as a text for a language model, which cites each of its `excerpts`.

    The documents come best first, and the excerpts of a document in the order of its text. `text`
    has `num_tokens` tokens, of four bytes each.
    """

    text: str
    excerpts: list[Excerpt]
    num_tokens: int

    @property
    def document_ids(self) -> list[str]:
        """The documents that there are excerpts of, the best one first."""
        return [*dict.fromkeys(each.document_id for each in self.excerpts)]

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, repr=False)
class SearchResult:
    """The hits of a search, best document first, unless a `sort` gives another order.

    Those with a `rerank_score` come first, in an order by both scores: see
    `swiftlet.encoders.reranker.order_by`. The others follow by their score.
    `num_reranked` documents were re-ranked, on this page or not.
    `stage_seconds` has one number for each of `STAGE_NAMES`: 0.0 where a stage had nothing to do.
    `cached` is true when the query's embedding came from the cache. `generation` is the
    `Searcher.generation` of the index. A search with the `format` `context` has one, and no hits.
    """

    hits: list[Hit]
    stage_seconds: tuple[float, ...]
    cached: bool = False
    generation: str = ""
    num_reranked: int = 0
    context: Context | None = None

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, rank: int) -> Hit:
        return self.hits[rank]

    def __repr__(self) -> str:
        hits = "hit" if len(self.hits) == 1 else "hits"
        # A client does not know the seconds of a service.
        took = f" in {1000 * sum(self.stage_seconds):.2f} ms" if self.stage_seconds else ""
        lines = [f"{len(self.hits)} {hits}{took}"]
        lines += [f"{rank:>3}  {hit!r}" for rank, hit in enumerate(self.hits, start=1)]
        return "\n".join(lines)
