"""The bodies of answers; FastAPI makes the OpenAPI document from them."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from service.wire.requests import Limits


class PassageAnswer(BaseModel):
    """The part of a document that gave it its score."""

    passage_id: str
    text: str = Field(default="", description="Left out with include_text = false.")
    start: int = Field(description="First character in the document's text.")
    end: int = Field(description="One past the last character in the document's text.")
    heading: str = Field(
        default="", description="The path of headings above it; left out if there is none."
    )
    highlights: list[tuple[int, int]] = Field(
        default=[], description="Spans of `text`; left out without highlight."
    )


class HitAnswer(BaseModel):
    """A document found for a query."""

    document_id: str
    score: float = Field(
        description="Of the query and the passage. dense: their cosine, or the score by the metric "
        "of the index; lexical: the BM25 score, divided by the weight of the query's words; "
        "hybrid: the weighted sum of both, or with rrf the sum of 1 / (60 + rank) in both."
    )
    boosted_score: float | None = Field(
        default=None,
        description="The score with what the boosts add; the order is by it. Left out without one.",
    )
    title: str
    passage: PassageAnswer
    metadata: dict[str, Any]
    rerank_score: float | None = Field(
        default=None,
        description="From 0 to 1, by the re-ranker; left out without rerank, and null if it has "
        "not scored the passage in time. Hits with such a score come first, ordered by both scores "
        "if the re-ranker's weight is below 1.",
    )


class HitsAnswer(BaseModel):
    """The hits of one query of a batch."""

    hits: list[HitAnswer] = Field(description="Best first; equal scores by document_id.")


class GroupAnswer(BaseModel):
    """The best documents with one value of a field."""

    value: Any = Field(description="The value; a text over 256 bytes is cut.")
    hits: list[HitAnswer] = Field(description="Best first; at most group_size.")


class ExcerptAnswer(BaseModel):
    """A part of a document that was found, whole sentences of it."""

    document_id: str
    title: str
    heading: str = Field(description="The path of headings above it; may be empty.")
    start: int = Field(description="First character in the document's text.")
    end: int = Field(description="One past the last character in the document's text.")
    first_line: int = Field(description="Its first line, counted from 1; front matter counts.")
    last_line: int
    text: str
    score: float = Field(description="Of its best passage.")


class ContextAnswer(BaseModel):
    """What was found as a text for a language model."""

    text: str = Field(description="All excerpts, each with its document and its lines.")
    excerpts: list[ExcerptAnswer] = Field(
        description="By document, the best document first, in the order of its text."
    )
    num_tokens: int = Field(description="Of `text`, of four bytes each.")


class SearchAnswer(HitsAnswer):
    """The answer of `/search`; with group_by, `hits` has the best document of each group."""

    reranked: int = Field(
        default=0,
        description="How many documents the re-ranker has scored in time; left out without rerank.",
    )
    groups: list[GroupAnswer] = Field(default=[], description="Left out without group_by.")
    context: ContextAnswer | None = Field(
        default=None, description='Left out, unless format is "context"; then hits are empty.'
    )
    next: str = Field(
        default="", description="The cursor of the documents that follow, if there may be some."
    )
    index: str = Field(description="Fingerprint of the index that answered.")


class BatchAnswer(BaseModel):
    """The answer of `/search/batch`."""

    results: list[HitsAnswer] = Field(
        description="One for each query, in the order of the queries."
    )
    index: str = Field(description="Fingerprint of the index that answered.")


class ValueAnswer(BaseModel):
    """A value of a facet."""

    value: str | bool | int | float = Field(description="Integers are exact, also beyond 2⁵³.")
    count: int = Field(description="The documents that have it and pass the filter.")


class FacetsAnswer(BaseModel):
    """The answer of `/facets`."""

    facets: dict[str, list[ValueAnswer]] = Field(
        description="For each field that the index declares as a facet: its values, most frequent "
        "first, at most 50."
    )
    index: str = Field(description="Fingerprint of the index that answered.")


class SuggestionAnswer(BaseModel):
    """A title that has the typed words."""

    document_id: str = Field(description="Of the first document with this title.")
    title: str
    highlights: list[tuple[int, int]] = Field(description="Spans of `title` that were typed.")


class SuggestAnswer(BaseModel):
    """The answer of `/suggest`."""

    suggestions: list[SuggestionAnswer] = Field(
        description="Best first: without typing errors, beginning with the text, short."
    )


class DocumentAnswer(BaseModel):
    """A document as the corpus gave it."""

    document_id: str
    title: str
    text: str
    metadata: dict[str, Any]


class WriteAnswer(BaseModel):
    """The answer of a write, which is durable and visible to searches."""

    documents: int = Field(description="How many documents were put, or deleted.")
    unknown: list[str] = Field(default=[], description="Ids that no document has.")
    change: int = Field(description="The number of the index's last change.")


class TextScore(BaseModel):
    """The score of one text, as TEI has it."""

    index: int = Field(description="The place of the text in the request.")
    score: float
    text: str = Field(default="", description="Left out without return_text.")


class DocumentScore(BaseModel):
    """The score of one document, as Cohere has it."""

    index: int = Field(description="The place of the document in the request.")
    relevance_score: float
    document: dict[str, str] = Field(default={}, description="Left out without return_documents.")


class RerankAnswer(BaseModel):
    """The answer of `/rerank` to documents; to texts it is a list of scores."""

    results: list[DocumentScore] = Field(description="Best first.")
    model: str = Field(description="The name of the re-ranker.")


class EmbeddingAnswer(BaseModel):
    """One embedding."""

    object: Literal["embedding"]
    index: int = Field(description="The place of its text in the input.")
    embedding: list[float] | str = Field(
        description="Numbers; with base64, float32 in little-endian order."
    )


class UsageAnswer(BaseModel):
    """How many tokens were read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsAnswer(BaseModel):
    """The answer of `/v1/embeddings`."""

    object: Literal["list"]
    data: list[EmbeddingAnswer]
    model: str = Field(description="The name of the encoder in use.")
    usage: UsageAnswer


class ModelAnswer(BaseModel):
    """A model, with the fields of OpenAI's."""

    id: str = Field(description="The name of the encoder in use.")
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "swiftlet"


class ModelsAnswer(BaseModel):
    """The answer of `/v1/models`."""

    object: Literal["list"] = "list"
    data: list[ModelAnswer]


class ReloadAnswer(BaseModel):
    """The answer of `/admin/reload`."""

    index: str = Field(description="Fingerprint of the index that answers from now on.")
    encoder: str = Field(description="Fingerprint of its query encoder.")
    num_documents: int
    num_passages: int


class EncoderAnswer(BaseModel):
    """The query encoder in use."""

    name: str
    precision: str
    dim: int
    max_tokens: int
    fingerprint: str
    details: dict[str, Any] = Field(description="Further fields of the encoder's manifest.")


class IndexAnswer(BaseModel):
    """The index in use."""

    fingerprint: str
    num_documents: int
    num_passages: int
    modes: list[str] = Field(description="The modes of a search; the first is the default.")
    weight: float = Field(description="The default of a search's weight.")
    facets: list[str] = Field(description="The fields that `/facets` counts.")
    fields: list[str] = Field(description="The fields that a filter can name, at most 100.")
    examples: list[str] = Field(
        description="Titles of documents as examples of queries, at most 5."
    )
    created_by: str
    recall: dict[str, Any] = Field(description="Measured against exact search at the build.")
    details: dict[str, Any] = Field(description="Further fields of the index's manifest.")


class RerankerAnswer(BaseModel):
    """The re-ranker in use."""

    name: str
    weight: float = Field(description="The weight of its scores beside the scores of the search.")


class RefiningAnswer(BaseModel):
    """How far the document encoder is; the look-up encoder stands in for it meanwhile."""

    passages: int = Field(description="Passages that it has read.")
    of: int = Field(description="All passages; 0 until they are counted.")


class WeakAnswer(BaseModel):
    """The answer of `/weak`."""

    weak_below: dict[str, float] = Field(
        description="For hybrid and dense, the score that every second query of random words "
        "reaches; empty if it cannot be measured."
    )
    index: str = Field(description="Fingerprint of the index.")


class ReportTableAnswer(BaseModel):
    """A table of a report; the first column has names."""

    name: str
    title: str
    columns: list[str]
    rows: list[list[str]]


class InsightAnswer(BaseModel):
    """The answer of `/insight/report`."""

    sentences: list[str]
    tables: list[ReportTableAnswer] = Field(description="Those that have a row.")
    plot: str = Field(description="The searches by time, in SVG.")


class PooledDocumentAnswer(BaseModel):
    """A document to judge."""

    document_id: str
    title: str
    heading: str
    passage: str
    highlights: list[tuple[int, int]] = Field(description="Spans of the query's words.")
    grade: int | None = Field(description="What this judge gave it, if anything.")


class PooledQueryAnswer(BaseModel):
    """A query and its documents, in the order in which they are judged."""

    query_id: str
    query: str
    documents: list[PooledDocumentAnswer]


class PoolAnswer(BaseModel):
    """The answer of `/judge/pool`."""

    judge: str
    queries: list[PooledQueryAnswer]
    left_out: int = Field(description="Documents of the pool that the index lacks now.")


class JudgedAnswer(BaseModel):
    """The answer of `/judge/judgements`."""

    judged: int = Field(description="Documents that this judge has judged.")


class InfoAnswer(BaseModel):
    """The answer of `/info`."""

    embedding_space: str
    encoder: EncoderAnswer
    index: IndexAnswer
    reranker: RerankerAnswer | None
    refining: RefiningAnswer | None = Field(
        description="Given while `swiftlet up` makes the vectors of a new folder better."
    )
    files: bool = Field(description="Whether `/files` gives the originals of documents.")
    feedback: bool = Field(description="Whether `/feedback` takes what was opened.")
    limits: Limits
    threads: int = Field(description="Queries searched at the same time.")
    stages: list[str] = Field(description="The stages of a search, as `Server-Timing` names them.")
    versions: dict[str, str]


class IndexesAnswer(BaseModel):
    """The answer of `/indexes`."""

    indexes: list[str] = Field(description="Names, each of which answers below /indexes/NAME.")


class HealthAnswer(BaseModel):
    """The answer of the health routes."""

    status: str
