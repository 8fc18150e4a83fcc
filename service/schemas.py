"""What requests and answers look like; the OpenAPI document is made from these models."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    create_model,
)
from pydantic_core import PydanticCustomError

from retrieval.errors import QueryError
from retrieval.searcher import check_query

RequestModel = TypeVar("RequestModel", bound=BaseModel)

SEARCHABLE = (
    r"^[^\u0000]*[^\u0000-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
    r"[^\u0000]*$"
)
"""What `check_query` takes, as a regular expression of JSON Schema: no NUL, and not all blank."""

_DEFAULT_TOP_K = 10


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one request may ask for."""

    max_query_chars: int = 10_000
    max_top_k: int = 1_000
    max_batch_queries: int = 64
    max_body_bytes: int = 4 * 1024 * 1024
    body_timeout_ms: int = 5_000
    timeout_ms: int = 5_000


class _Request(BaseModel):
    # A "10" for a 10 is a client's mistake that a friendlier service would hide until it matters.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SearchRequest(_Request):
    """The body of `POST /search`."""

    query: str
    top_k: int = _DEFAULT_TOP_K
    include_text: bool = True
    timeout_ms: int = 0


class SearchParameters(_Request):
    """The query string of `GET /search`."""

    q: str
    top_k: int = _DEFAULT_TOP_K
    include_text: bool = True
    timeout_ms: int = 0


class BatchRequest(_Request):
    """The body of `POST /search/batch`."""

    queries: list[str]
    top_k: int = _DEFAULT_TOP_K
    include_text: bool = True
    timeout_ms: int = 0


class EmbeddingRequest(_Request):
    """The body of `POST /v1/embeddings`."""

    input: list[str]
    model: str = ""
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    user: str = ""


class ReloadRequest(_Request):
    """The body of `POST /admin/reload`, which has no fields."""


def bounded(model: type[RequestModel], limits: Limits) -> type[RequestModel]:
    """A request model whose fields have the bounds of `limits`, and say so in their descriptions.

    The descriptions double as the second half of the sentence that refuses a value.
    """
    query_text = Annotated[
        str,
        Field(
            min_length=1,
            max_length=limits.max_query_chars,
            description=f"a text of 1 to {limits.max_query_chars} characters, not all blank",
            json_schema_extra={"pattern": SEARCHABLE},
        ),
        AfterValidator(_searchable),
    ]
    queries = Annotated[
        list[query_text],
        Field(
            min_length=1,
            max_length=limits.max_batch_queries,
            description=f"a list of 1 to {limits.max_batch_queries} texts",
        ),
    ]
    top_k = Annotated[
        int,
        Field(
            ge=1,
            le=limits.max_top_k,
            description=f"a whole number from 1 to {limits.max_top_k}",
        ),
    ]
    include_text = Annotated[bool, Field(description="true or false")]
    timeout_ms = Annotated[
        int,
        Field(
            ge=1,
            le=limits.timeout_ms,
            description=f"a whole number of milliseconds from 1 to {limits.timeout_ms}",
        ),
    ]
    texts = Annotated[
        queries,
        BeforeValidator(_listed, json_schema_input_type=query_text | queries),
        Field(description=f"a text, or a list of 1 to {limits.max_batch_queries} texts"),
    ]
    bounds: dict[str, Any] = {
        "query": (query_text, ...),
        "q": (query_text, ...),
        "queries": (queries, ...),
        "top_k": (top_k, min(_DEFAULT_TOP_K, limits.max_top_k)),
        "include_text": (include_text, True),
        "timeout_ms": (timeout_ms, limits.timeout_ms),
        "input": (texts, ...),
        "model": (Annotated[str, Field(description="any text, which changes nothing")], ""),
        "encoding_format": (
            Annotated[Literal["float", "base64"], Field(description="float or base64")],
            "float",
        ),
        "dimensions": (
            Annotated[int | None, Field(description="the dimensions of the encoder, or null")],
            None,
        ),
        "user": (Annotated[str, Field(description="any text, which changes nothing")], ""),
    }
    return create_model(
        model.__name__,
        __base__=model,
        __doc__=model.__doc__,
        **{name: bounds[name] for name in model.model_fields},
    )


def _listed(given: object) -> object:
    return [given] if isinstance(given, str) else given


def _searchable(text: str) -> str:
    try:
        check_query(text)
    except QueryError as error:
        raise PydanticCustomError("unsearchable", "{reason}", {"reason": str(error)}) from None
    return text


class PassageAnswer(BaseModel):
    """The part of a document that gave it its score."""

    passage_id: str
    text: str = Field(default="", description="Left out with include_text = false.")
    start: int = Field(description="First character in the document's text.")
    end: int = Field(description="One past the last character in the document's text.")


class HitAnswer(BaseModel):
    """A document found for a query."""

    document_id: str
    score: float = Field(description="Cosine similarity of the query and the passage.")
    title: str
    passage: PassageAnswer
    metadata: dict[str, Any]


class HitsAnswer(BaseModel):
    """What was found for one query of a batch."""

    hits: list[HitAnswer] = Field(description="Best first; equal scores by document_id.")


class SearchAnswer(HitsAnswer):
    """The answer of `/search`."""

    index: str = Field(description="Fingerprint of the index that answered.")


class BatchAnswer(BaseModel):
    """The answer of `/search/batch`."""

    results: list[HitsAnswer] = Field(
        description="One for each query, in the order of the queries."
    )
    index: str = Field(description="Fingerprint of the index that answered.")


class DocumentAnswer(BaseModel):
    """A document as the corpus gave it."""

    document_id: str
    title: str
    text: str
    metadata: dict[str, Any]


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
    model: str = Field(description="The name of the encoder at work.")
    usage: UsageAnswer


class ReloadAnswer(BaseModel):
    """The answer of `/admin/reload`."""

    index: str = Field(description="Fingerprint of the index that answers from now on.")
    encoder: str = Field(description="Fingerprint of its query encoder.")
    num_documents: int
    num_passages: int


class EncoderAnswer(BaseModel):
    """The query encoder at work."""

    name: str
    precision: str
    dim: int
    max_tokens: int
    fingerprint: str
    details: dict[str, Any] = Field(description="What the encoder's manifest says of it.")


class IndexAnswer(BaseModel):
    """The index at work."""

    fingerprint: str
    num_documents: int
    num_passages: int
    created_by: str
    recall: dict[str, Any] = Field(description="Measured against exact search at the build.")
    details: dict[str, Any] = Field(description="What the index's manifest says of it.")


class LimitsAnswer(BaseModel):
    """How much one request may ask for."""

    max_query_chars: int
    max_top_k: int
    max_batch_queries: int
    max_body_bytes: int
    body_timeout_ms: int
    timeout_ms: int


class InfoAnswer(BaseModel):
    """The answer of `/info`."""

    embedding_space: str
    encoder: EncoderAnswer
    index: IndexAnswer
    limits: LimitsAnswer
    threads: int = Field(description="Queries worked on at the same time.")
    versions: dict[str, str]


class HealthAnswer(BaseModel):
    """The answer of the health routes."""

    status: str


class Problem(BaseModel):
    """An error, as RFC 9457 says."""

    type: str = Field(description="The kind of the problem, as a reference into /docs.")
    title: str
    status: int
    detail: str = Field(description="One sentence that names the culprit and the bound.")
    request_id: str
    field: str = Field(default="", description="The field at fault, where there is one.")
