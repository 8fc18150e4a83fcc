"""The limits, bodies and query strings of requests; searches have the fields of `SearchRequest`."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic_core import from_json

from service.wire.body import SMALL_BODY_BYTES
from service.wire.problems import InvalidRequestError
from service.wire.refusals import shown
from swiftlet.errors import QueryError
from swiftlet.index.columns.boosts import parse_boosts
from swiftlet.index.columns.filters import Filter, parse_filter
from swiftlet.search.request import OPTIONS, RequestConflictError, SearchRequest
from swiftlet.text import INVISIBLE, check_query

MEBIBYTE = 2**20

# JSON Schema has escapes for the first plane alone.
_UNSEEN = "".join(
    f"\\u{ord(each):04x}" if "-" < each < "\U00010000" else each for each in INVISIBLE.pattern[1:-1]
)
SEARCHABLE = (
    r"^[^\u0000]*[^\u0000-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
    rf"{_UNSEEN}][^\u0000]*$"
)
"""The texts that `check_query` accepts, in JSON Schema: no NUL, and not all blank."""

_TYPES = get_type_hints(SearchRequest, localns={"Filter": Any, "Boosts": Any})


class Limits(BaseModel):
    """The limits of one request."""

    model_config = ConfigDict(frozen=True)

    max_query_chars: int = 10_000
    max_top_k: int = 1_000
    max_reranked: int = 100
    max_offset: int = 10_000
    max_batch_queries: int = 64
    max_batch_hits: int = 10_000
    max_embeddings: int = 2_048
    max_search_body_bytes: int = SMALL_BODY_BYTES
    max_documents: int = 1_000
    max_passages: int = 10_000
    max_body_bytes: int = 4 * MEBIBYTE
    max_unread_bytes: int = 64 * MEBIBYTE
    body_timeout_ms: int = 5_000
    timeout_ms: int = 5_000


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

_BOOST: dict[str, Any] = {"type": "object", "additionalProperties": True}

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


BoostObject = Annotated[
    Any,  # FastAPI would look for several parameters where a tuple is expected
    PlainValidator(lambda value: None if value is None else parse_boosts(value)),
    WithJsonSchema({"anyOf": [_BOOST, {"type": "array", "items": _BOOST}, {"type": "null"}]}),
]
"""What documents gain by their metadata."""

EmbeddingNumbers = Annotated[
    list[Any],
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": "number"},
            "minItems": 1,
            "description": "a list of numbers",
        }
    ),
]
"""An embedding; `SearchRequest` checks its numbers, since pydantic would report each bad one."""

JSON_TEXT = WithJsonSchema({"type": "string", "contentMediaType": "application/json"})
"""An object in a query string."""

_TEXTS = frozenset({"q", "group_by", "sort", "cursor"})
"""The parameters of a query string that are texts, so "10" is not 10."""


class LinkModel(RequestModel):
    """A query string: texts as they are, and other parameters as JSON writes them."""

    @model_validator(mode="before")
    @classmethod
    def _from_json(cls, parameters: dict[str, object]) -> dict[str, object]:
        return {
            name: value if name in _TEXTS else _parsed(value) for name, value in parameters.items()
        }


async def check_query_string(request: Request) -> None:
    """Refuse query strings that FastAPI would misread.

    :raises InvalidRequestError: When a parameter is repeated, or not valid UTF-8.
    """
    try:
        pairs = parse_qsl(
            request.scope["query_string"].decode(), keep_blank_values=True, errors="strict"
        )
    except ValueError:
        raise InvalidRequestError("", "the query string is not valid UTF-8") from None
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise InvalidRequestError(name, f"{shown(name)} is given more than once")
        seen.add(name)


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
        self.embeddings: Any = Field(
            min_length=1,
            max_length=limits.max_batch_queries,
            description=f"a list of 1 to {limits.max_batch_queries} embeddings",
        )
        self.timeout_ms: Any = _whole(1, limits.timeout_ms, "a whole number of milliseconds")


def _whole(least: int, most: int, what: str = "a whole number") -> Any:
    return Field(ge=least, le=most, description=f"{what} from {least} to {most}")


def _parsed(text: object) -> object:
    if isinstance(text, str):
        with suppress(ValueError):
            return from_json(text, allow_inf_nan=False)
    return text


Searchable = AfterValidator(check_query)
"""Checks that a text can be a query."""


class SearchFields(RequestModel):
    """A request to search, within the limits of a service."""

    if TYPE_CHECKING:  # `search_model` adds them, with all fields of `SearchRequest`
        queries: list[str]
        embeddings: list[list[Any]]
        top_k: int
        cursor: str | None
        timeout_ms: int

    @property
    def num_queries(self) -> int:
        """How many searches a batch asks for."""
        return max(len(self.queries), len(self.embeddings))

    def request(self, query: str, embedding: list[Any] | None = None) -> SearchRequest:
        """The search that is asked for.

        :raises InvalidRequestError: When two fields exclude each other, or there is no query.
        """
        values = {name: value for name, value in vars(self).items() if name in OPTIONS}
        values.pop("query", None)
        if values.get("rerank") is not None:
            values["rerank"] = values["rerank"].top_n
        if embedding is not None:
            values["embedding"] = embedding
        elif not query and values.get("embedding") is None:
            raise self._missing("query", "an embedding")
        # Clients may send values that have no effect, as they always could.
        if values["mode"] not in {None, "hybrid"} or not query:
            values["weight"] = None
        if values.get("group_by") is None:
            values.pop("group_size", None)
        try:
            return SearchRequest(query, **values)
        except RequestConflictError as error:
            raise InvalidRequestError(error.field, str(error)) from error

    def requests(self) -> list[SearchRequest]:
        """The searches of a batch.

        :raises InvalidRequestError: When a query cannot be searched, or two fields exclude each
            other.
        """
        count, found = self.num_queries, list[SearchRequest]()
        if not count:
            raise self._missing("queries", "embeddings")
        if self.queries and self.embeddings and len(self.queries) != len(self.embeddings):
            raise InvalidRequestError(
                "embeddings",
                f"there are {len(self.queries)} queries, but {len(self.embeddings)} embeddings; "
                "one for each query is expected",
            )
        none: list[list[Any] | None] = [None] * count
        given = zip(self.queries or [""] * count, self.embeddings or none, strict=True)
        for number, (query, embedding) in enumerate(given):
            try:
                found.append(self.request(query, embedding))
            except QueryError as error:
                field = f"queries[{number}]"
                raise InvalidRequestError(field, f"{field}: {error}") from error
            except InvalidRequestError as error:
                if error.field != "embedding":
                    raise
                field = f"embeddings[{number}]"
                raise InvalidRequestError(field, f"{field}: {error}") from error
        return found

    def _missing(self, name: str, other: str) -> InvalidRequestError:
        expected = type(self).model_fields[name].description
        return InvalidRequestError(name, f"{name} is missing; {expected} is expected, or {other}")


def search_model(
    name: str, limits: Limits, about: str, *, of_link: bool = False, of_batch: bool = False
) -> Any:
    """The model of a request to search: a class below `SearchFields`.

    :param about: Its description.
    :param of_link: Whether it is a query string, in which objects are JSON.
    :param of_batch: Whether it has several queries.
    """
    bounded = RequestFields(limits)
    query: Any = Annotated[str, bounded.query]
    first: dict[str, Any]
    if of_batch:  # `requests` checks them, since many long ones would hold up the event loop
        first = {
            "queries": (Annotated[list[query], bounded.queries], Field(default_factory=list)),
            "embeddings": (
                Annotated[list[EmbeddingNumbers], bounded.embeddings],
                Field(default_factory=list),
            ),
        }
    elif of_link:
        first = {"q": (Annotated[query, Searchable], ...)}
    else:  # JSON Schema would call a default of "" too short
        first = {"query": (Annotated[query, Searchable], Field(default_factory=str))}
    rerank: Any = create_model(
        "BoundedRerank",
        __base__=RequestModel,
        __doc__="What a re-ranker orders.",
        top_n=(Annotated[int, _whole(1, limits.max_reranked)], ...),
    )
    counted = Annotated[int, _whole(1, limits.max_top_k)]
    within_limits: dict[str, Any] = {
        "query": None,
        "top_k": (counted, min(_default("top_k"), limits.max_top_k)),
        "offset": (Annotated[int, _whole(0, limits.max_offset)], 0),
        "filter": (FilterText if of_link else FilterObject, None),
        "rerank": (
            Annotated[rerank | None, JSON_TEXT] if of_link else rerank | None,
            Field(
                None,
                description='null or {"top_n": 20}, with the number of documents that a re-ranker '
                f"orders, from 1 to {limits.max_reranked},",
            ),
        ),
        "boost": (
            Annotated[BoostObject, JSON_TEXT] if of_link else BoostObject,
            Field(None, description="null, a boost or a list of boosts (docs/search.md)"),
        ),
        "group_size": (counted, _default("group_size")),
        "embedding": (
            EmbeddingNumbers,
            Field(
                default_factory=lambda: None,
                description="a list of as many numbers as an embedding of the index has",
            ),
        ),
    }
    left_out = {"query", "embedding"} if of_link else {"query"}
    further: dict[str, Any] = {
        option: within_limits.get(option) or _field(option)
        for option, about in OPTIONS.items()
        if option not in left_out and not (of_batch and about.single)
    }
    if not of_batch:
        further["cursor"] = (
            str | None,
            Field(None, max_length=100, description="the `next` of an answer to the same search"),
        )
    further["timeout_ms"] = (Annotated[int, bounded.timeout_ms], limits.timeout_ms)
    bases: Any = (SearchFields, LinkModel) if of_link else SearchFields
    model: Any = create_model(name, __base__=bases, __doc__=about, **first, **further)
    return model


def _field(name: str) -> tuple[Any, Any]:
    option = OPTIONS[name]
    return _TYPES[name], Field(_default(name), description=option.expected, **option.bounds)


def _default(name: str) -> Any:
    return SearchRequest.__dataclass_fields__[name].default
