"""The bodies and query strings of searches, made from the fields of `SearchRequest`."""

from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from pydantic import Field, create_model

from service.wire.limits import Limits
from service.wire.problems import InvalidRequestError
from service.wire.schemas import (
    JSON_TEXT,
    FilterObject,
    FilterText,
    LinkModel,
    RequestFields,
    RequestModel,
    Searchable,
)
from swiftlet.search.request import OPTIONS, RequestConflictError, SearchRequest

_TYPES = get_type_hints(SearchRequest, localns={"Filter": Any})


class SearchFields(RequestModel):
    """A request to search, within the limits of a service."""

    if TYPE_CHECKING:  # `search_model` adds them, with all fields of `SearchRequest`
        queries: list[str]
        top_k: int
        cursor: str | None
        timeout_ms: int

    def request(self, query: str) -> SearchRequest:
        """The search that is asked for.

        :raises InvalidRequestError: When two fields exclude each other.
        """
        own = type(self).model_fields.keys() & OPTIONS.keys() - {"query"}
        values = {name: getattr(self, name) for name in own}
        if values.get("rerank") is not None:
            values["rerank"] = values["rerank"].top_n
        try:
            return SearchRequest(query, **values)
        except RequestConflictError as error:
            raise InvalidRequestError(error.field, str(error)) from error


def search_model(
    name: str, limits: Limits, about: str, *, of_link: bool = False, of_batch: bool = False
) -> Any:
    """The model of a request to search: a class below `SearchFields`.

    :param about: Its description.
    :param of_link: Whether it is a query string, in which objects are JSON.
    :param of_batch: Whether it has several queries.
    """
    bounded = RequestFields(limits)
    first: dict[str, Any] = {"query": (Annotated[str, bounded.query, Searchable], ...)}
    if of_link:
        first = {"q": first["query"]}
    elif of_batch:
        searchable = Annotated[str, bounded.query, Searchable]
        first = {"queries": (Annotated[list[searchable], bounded.queries], ...)}
    rerank: Any = create_model(
        "BoundedRerank",
        __base__=RequestModel,
        __doc__="What a re-ranker orders.",
        top_n=(Annotated[int, bounded.top_n], ...),
    )
    within_limits: dict[str, Any] = {
        "query": None,
        "top_k": (Annotated[int, bounded.top_k], bounded.default_top_k),
        "offset": (Annotated[int, bounded.offset], 0),
        "filter": (FilterText if of_link else FilterObject, None),
        "rerank": (
            Annotated[rerank | None, JSON_TEXT] if of_link else rerank | None,
            Field(
                None,
                description='null or {"top_n": 20}, with the number of documents that a re-ranker '
                f"orders, from 1 to {limits.max_reranked},",
            ),
        ),
        "group_size": (Annotated[int, bounded.group_size], _default("group_size")),
    }
    further: dict[str, Any] = {
        option: within_limits.get(option) or _field(option)
        for option, about in OPTIONS.items()
        if option != "query" and not (of_batch and about.single)
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
