"""The bodies of requests and answers; FastAPI makes the OpenAPI document from them."""

from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import from_json

from service.wire.limits import Limits
from swiftlet.index.columns.filters import Filter, parse_filter
from swiftlet.text import check_query

SEARCHABLE = (
    r"^[^\u0000]*[^\u0000-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
    r"[^\u0000]*$"
)
"""The texts that `check_query` accepts, in JSON Schema: no NUL, and not all blank."""

_DEFAULT_TOP_K = 10


class RequestModel(BaseModel):
    """A request. Types are strict: "10" is not 10."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _parsed_filter(value: object) -> Filter | None:
    return None if value is None else parse_filter(value)


_FILTER = (
    'conditions on the metadata, such as {"kind": "report", "year": {"gte": 2020}}; '
    "docs/search.md describes their language"
)
FilterObject = Annotated[
    Filter | None,
    PlainValidator(_parsed_filter),
    WithJsonSchema(
        {
            "anyOf": [{"type": "object", "additionalProperties": True}, {"type": "null"}],
            "description": _FILTER,
        }
    ),
]
"""A filter in a body."""

GivenFilter = Annotated[
    Filter,
    PlainValidator(parse_filter),
    WithJsonSchema({"type": "object", "additionalProperties": True, "description": _FILTER}),
]
"""A filter in a body that must not be null."""

FilterText = Annotated[
    Filter | None,
    PlainValidator(_parsed_filter),
    WithJsonSchema(
        {
            "type": "string",
            "contentMediaType": "application/json",
            "description": f"in JSON, {_FILTER}",
        }
    ),
]
"""A filter in a query string."""


JSON_TEXT = WithJsonSchema({"type": "string", "contentMediaType": "application/json"})
"""An object in a query string."""

_TEXTS = frozenset({"q", "group_by", "cursor"})
"""The parameters of a query string that are texts, so "10" is not 10."""


class LinkModel(RequestModel):
    """A query string: texts as they are, and other parameters as JSON writes them."""

    @model_validator(mode="before")
    @classmethod
    def _from_json(cls, parameters: dict[str, object]) -> dict[str, object]:
        return {
            name: value if name in _TEXTS else _parsed(value) for name, value in parameters.items()
        }


class RequestFields:
    """The bounds of fields within `limits`.

    The sentence that refuses a value ends with the description: "… is expected".
    """

    def __init__(self, limits: Limits) -> None:
        self.query: Any = Field(
            min_length=1,
            max_length=limits.max_query_chars,
            description=f"a text of 1 to {limits.max_query_chars} characters, not all blank",
            json_schema_extra={"pattern": SEARCHABLE},
        )
        self.queries: Any = Field(
            min_length=1,
            max_length=limits.max_batch_queries,
            description=f"a list of 1 to {limits.max_batch_queries} texts",
        )
        self.top_k: Any = Field(
            ge=1, le=limits.max_top_k, description=f"a whole number from 1 to {limits.max_top_k}"
        )
        self.group_size: Any = Field(
            ge=1, le=limits.max_top_k, description=f"a whole number from 1 to {limits.max_top_k}"
        )
        self.default_top_k = min(_DEFAULT_TOP_K, limits.max_top_k)
        self.top_n: Any = Field(
            ge=1,
            le=limits.max_reranked,
            description=f"a whole number from 1 to {limits.max_reranked}",
        )
        self.offset: Any = Field(
            ge=0, le=limits.max_offset, description=f"a whole number from 0 to {limits.max_offset}"
        )
        self.timeout_ms: Any = Field(
            ge=1,
            le=limits.timeout_ms,
            description=f"a whole number of milliseconds from 1 to {limits.timeout_ms}",
        )


def _parsed(text: object) -> object:
    if isinstance(text, str):
        with suppress(ValueError):
            return from_json(text, allow_inf_nan=False)
    return text


Searchable = AfterValidator(check_query)
"""Checks that a text can be a query."""


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
        description="Of the query and the passage. dense: their cosine; lexical: the BM25 score, "
        "divided by the weight of the query's words; hybrid: the weighted sum of both, or with "
        "rrf the sum of 1 / (60 + rank) in both."
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


class SearchAnswer(HitsAnswer):
    """The answer of `/search`; with group_by, `hits` has the best document of each group."""

    reranked: int = Field(
        default=0,
        description="How many documents the re-ranker has scored in time; left out without rerank.",
    )
    groups: list[GroupAnswer] = Field(default=[], description="Left out without group_by.")
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

    value: str | bool | float
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
    weight: float = Field(description="The weight of its scores beside those of the search.")


class InfoAnswer(BaseModel):
    """The answer of `/info`."""

    embedding_space: str
    encoder: EncoderAnswer
    index: IndexAnswer
    reranker: RerankerAnswer | None
    limits: Limits
    threads: int = Field(description="Queries searched at the same time.")
    stages: list[str] = Field(description="The stages of a search, as `Server-Timing` names them.")
    versions: dict[str, str]


class HealthAnswer(BaseModel):
    """The answer of the health routes."""

    status: str
