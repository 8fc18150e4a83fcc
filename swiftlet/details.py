"""What the manifest of each kind holds, as it is checked once, when the manifest is read."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from swiftlet.errors import shown, shown_json

_Count = Annotated[int, Field(ge=0, le=1 << 53)]
_Positive = Annotated[int, Field(ge=1, le=1 << 53)]
_Width = Annotated[int, Field(ge=0, le=1 << 20)]
_Effort = Annotated[float, Field(ge=1, le=1 << 40)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Length = Annotated[float, Field(gt=0, le=1e36)]
_Place = Annotated[str, Field(pattern=r"^[^\x00]*$")]
_Hash = Annotated[str, Field(pattern=r"^[ -~]*$")]
_Prompt = Annotated[str, Field(max_length=10_000)]
_Vectors = Annotated[int, Field(ge=1, le=4_096)]
_Precision = Literal["fp32", "int8", "int8_static"]


class _Checked(BaseModel):
    """Fields that are not named here pass: a later version may have more of them."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)


class _Whole(_Checked):
    """Fields that are the arguments of a function, so that another field is refused."""

    model_config = ConfigDict(extra="forbid")


class _Splitting(_Whole):
    max_tokens: _Positive
    overlap_tokens: _Count
    truncate: bool = False
    headings: bool = False


class _Training(_Checked):
    num_passages: _Positive = 1


class _Encoded(_Checked):
    """A corpus that was split into passages and encoded."""

    encoder: str
    encoder_fingerprint: _Hash
    precision: _Precision
    splitting: _Splitting
    num_documents: _Count = 0
    num_passages: _Count = 0
    encoder_place: _Place = ""
    encoder_canonical: dict[str, str] = {}
    vectors: _Vectors = 1


class _Index(_Encoded):
    """Of an index in a directory or on a server; only a directory has a vector index."""

    engine: str = ""
    factory: str = ""
    search_effort: dict[str, _Effort] = {}
    language: str | None = None
    analysis: _Positive = 1
    facets: list[str] = []
    boost: list[dict[str, Any]] = []
    recall: dict[str, Any] = {}
    training: _Training = _Training()
    change: _Count = 0
    weight: _Share = 0
    dense_scale: Annotated[list[_Length], Field(min_length=2, max_length=2)] | None = None


class _Shard(_Encoded):
    number: _Positive
    of: _Positive
    corpus: str


class _Model(_Checked):
    """A model in ONNX."""

    name: str = ""
    precisions: list[str] = []
    default_precision: str | None = None
    max_tokens: _Positive = 1
    parity: dict[str, dict[str, Any]] = {}


class _Encoder(_Model):
    source: str = ""
    role: Literal["query", "passage"] | None = None
    prompts: dict[str, _Prompt] = {}
    input_names: list[str] = []
    vectors: _Vectors = 1


class _Reranker(_Model):
    weight: _Share = 1


class _Manifest(_Whole):
    kind: str
    dim: _Width
    embedding_space: _Hash
    files: dict[str, dict[str, str | int]]
    created_by: str
    metric: str = ""
    normalised: bool = True
    format_version: int
    details: dict[str, Any] = {}


_DETAILS: Mapping[str, type[_Checked]] = {
    "index": _Index,
    "shard": _Shard,
    "encoder": _Encoder,
    "reranker": _Reranker,
}


NEEDED_FILES: Mapping[str, tuple[str, ...]] = {
    "index": ("documents.sqlite", "passage_to_document.npy"),
    "shard": ("documents.sqlite", "embeddings.npy"),
    "encoder": ("tokenizer.json", "canonical.json"),
    "reranker": ("tokenizer.json", "canonical.json"),
}
"""The files of each kind that are read by their names, so that a manifest must list them."""


def check_fields(fields: Mapping[str, Any]) -> None:
    """Refuse the fields of a manifest if one has another type than it should, or is out of range.

    :raises ValueError: When there is such a field; names it, its value and what is expected.
    """
    try:
        _Manifest.model_validate(fields)
        if (kind := fields["kind"]) in _DETAILS:
            _DETAILS[kind].model_validate(fields.get("details", {}))
    except ValidationError as error:
        first: Any = error.errors(include_url=False, include_context=False)[0]
        raise ValueError(_problem(first)) from None


def _problem(error: Mapping[str, Any]) -> str:
    place = shown(".".join(map(str, error["loc"])))
    if error["type"] == "missing":
        return f"{place} is missing"
    if error["type"] == "extra_forbidden":
        return f"there is no field {place}"
    expected = error["msg"].removeprefix("Input should be ")
    return f"{place} is {shown_json(error['input'])}, but {expected} is expected"
