"""What is asked of a search: one frozen value, which every way to search derives from."""

import json
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cache, partial
from hashlib import blake2b
from math import inf
from numbers import Real
from re import fullmatch
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from swiftlet.arguments import Option, check_values, number, one_of, options_of, whole_number
from swiftlet.errors import InvalidArgumentError, shown
from swiftlet.text import check_query

if TYPE_CHECKING:  # NumPy is not loaded for the help of a command
    from swiftlet.index.columns.boosts import Boosts
    from swiftlet.index.columns.filters import Filter

Mode = Literal["hybrid", "dense", "lexical"]
"""Which indexes a search uses: both, the vector index, or the lexical index."""

Fusion = Literal["weighted", "rrf"]
"""How two scores become one: by their weighted sum, or by reciprocal rank fusion."""

Highlighting = Literal["words", "sentence"]
"""The marked parts of passages: the words of the query, or the sentence nearest in meaning."""

Format = Literal["hits", "context"]
"""What a search answers: documents with their best passages, or a text for a language model."""

MODES: tuple[Mode, ...] = get_args(Mode)
FORMATS: tuple[Format, ...] = get_args(Format)
FUSIONS: tuple[Fusion, ...] = get_args(Fusion)
HIGHLIGHTINGS: tuple[Highlighting, ...] = get_args(Highlighting)

DEFAULT_WEIGHT = 0.72
"""The weight of the dense score; docs/results/hybrid.md has the collections it was chosen on."""

CONTEXT_WEIGHT = 0.5
"""The same for a context, where an index has the default weight; see docs/results/context.md."""

DEFAULT_GROUP_SIZE = 3

MOST_TOKENS = 20_000
"""Of a context; models use more of it hardly."""

CONTEXT_DOCUMENTS = 50
"""The most documents of a context, unless a search asks for another number."""


SORT = r"^[\s\S]+:(asc|desc)$"
"""A field and a direction."""

LONGEST_EMBEDDING = 16_384
"""Numbers of a query's embedding; the widest encoders have 4,096."""


class RequestConflictError(InvalidArgumentError):
    """A field of a request fits no other field, or not the index; `field` is the one to change."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = name


@dataclass(frozen=True, slots=True)
class SearchOption(Option):
    """A field of `SearchRequest`."""

    _: KW_ONLY
    expected: str = ""
    """The values that a service takes, as its refusals and its OpenAPI document name them."""

    bounds: Mapping[str, Any] = field(default_factory=dict)
    """Bounds of the value, as pydantic names them."""

    ranks: bool = True
    """Whether another value may find other documents, or put them into another order."""

    printed: bool = True
    """Whether `swiftlet search` prints what the field asks for, and so has an option for it."""

    single: bool = False
    """Whether it belongs to requests of one query, and not to a batch."""


def _choice(about: str, choices: Sequence[str], **further: Any) -> SearchOption:
    *first, last = (f'"{choice}"' for choice in choices)
    expected = f"{', '.join(first)} or {last}"
    return SearchOption(about, partial(one_of, choices=choices), expected=expected, **further)


def _filter(_: str, value: Any) -> "Filter":
    from swiftlet.index.columns.filters import parse_filter

    return parse_filter(value)


def _boosts(_: str, value: Any) -> "Boosts":
    from swiftlet.index.columns.boosts import parse_boosts

    return parse_boosts(value)


def _tokens(name: str, value: Any) -> int:
    if (found := whole_number(name, value, least=1)) > MOST_TOKENS:
        raise InvalidArgumentError(f"{name} is {found}, but 1 to {MOST_TOKENS:,} is expected")
    return found


def _name(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name} is {shown(value)}, but the name of a field is expected")
    return value


def _sort(name: str, value: Any) -> str:
    if not isinstance(value, str) or not fullmatch(SORT, value):
        raise InvalidArgumentError(
            f"{name} is {shown(value)}, but a field and its direction are expected, asc or desc: "
            "modified:desc"
        )
    return value


def check_embedding(name: str, value: object) -> tuple[float, ...]:
    """The numbers of an embedding, of a list, a tuple or an array (dim,).

    :raises RequestConflictError: When it is none, or a number is not finite, or all are zero.
    """
    import numpy as np

    if callable(to_list := getattr(value, "tolist", None)):
        value = to_list()
    expected = f"a list of 1 to {LONGEST_EMBEDDING:,} numbers is expected"
    if not isinstance(value, list | tuple):
        raise RequestConflictError(name, f"{name} is {shown(value)}, but {expected}")
    if not 0 < len(value) <= LONGEST_EMBEDDING:
        raise RequestConflictError(name, f"{name} has {len(value):,} numbers, but {expected}")
    for kind in {*map(type, value)}:
        if kind is bool or not issubclass(kind, Real):
            place = [*map(type, value)].index(kind)
            problem = f"{name}[{place}] is {shown(value[place])}, but a number is expected"
            raise RequestConflictError(name, problem)
    try:
        found = np.array(value, np.float64)
    except OverflowError:  # a whole number of hundreds of digits
        raise RequestConflictError(name, f"{name} has a number beyond 1e17: {expected}") from None
    sizes = np.abs(found)
    if len(bad := np.flatnonzero(~(sizes < _TOO_LARGE))):  # NaN is not less than anything
        raise RequestConflictError(
            name,
            f"{name}[{bad[0]}] is {found[bad[0]]:g}, but a number from -1e17 to 1e17 is expected",
        )
    if sizes.max() < _TOO_SMALL:
        raise RequestConflictError(
            name, f"{name} has only zeros, and so no direction: give another one"
        )
    return tuple(found.tolist())


_TOO_LARGE, _TOO_SMALL = 1e17, 1e-17
"""Sums of squares of larger numbers may be beyond a float32, and squares of smaller ones are 0."""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search that is asked for. Its values are checked when it is made.

    Searches for a `query`, or for its `embedding`, find the min(`top_k`, number of documents) best
    documents. HTTP, the command line, evaluation and cursors derive their fields from these; a
    stage of a search reads its field from here. A search without a query is dense.

    :raises QueryError: When the query is blank or not valid text, or missing.
    :raises FilterError: When the filter is malformed.
    :raises InvalidArgumentError: When a value is out of its range, or two fields exclude each
        other.
    """

    query: Annotated[
        str, SearchOption("The text of the query.", lambda _, value: check_query(value))
    ] = ""
    _: KW_ONLY
    top_k: Annotated[int, SearchOption("Documents to return.", least=1, ranks=False)] = 10
    offset: Annotated[
        int,
        SearchOption("Best documents to leave out.", least=0, ranks=False),
    ] = 0
    min_score: Annotated[
        float | None,
        SearchOption(
            "Leave out documents with a lower score.",
            number,
            expected="a number",
            bounds={"allow_inf_nan": False},
        ),
    ] = None
    include_text: Annotated[
        bool,
        SearchOption(
            "Give the text of each passage.",
            expected="true or false",
            ranks=False,
            printed=False,
        ),
    ] = True
    mode: Annotated[
        Mode | None,
        _choice(
            "hybrid, dense (by meaning) or lexical (by words).",
            MODES,
            unset="hybrid, where the index has both",
        ),
    ] = None
    weight: Annotated[
        float | None,
        SearchOption(
            "The weight of the dense score in a hybrid search.",
            partial(number, least=0, most=1),
            unset="the index's",
            expected="a number from 0 to 1",
            bounds={"ge": 0, "le": 1},
        ),
    ] = None
    filter: Annotated[
        "Filter | None",
        SearchOption(
            "Conditions on the metadata: 'modified>=2026-01-01 and kind=pdf', or JSON: "
            '{"year": {"gte": 2020}}.',
            _filter,
            unset="all documents",
        ),
    ] = None
    fusion: Annotated[Fusion, _choice("weighted, or rrf (reciprocal rank fusion).", FUSIONS)] = (
        "weighted"
    )
    highlight: Annotated[
        Highlighting | None,
        _choice(
            "Mark the words of the query, or the sentence nearest in meaning.",
            HIGHLIGHTINGS,
            ranks=False,
            printed=False,
        ),
    ] = None
    rerank: Annotated[
        int | None,
        SearchOption(
            "Best documents that the re-ranker orders.",
            least=1,
            unset="none",
            single=True,
        ),
    ] = None
    group_by: Annotated[
        str | None,
        SearchOption(
            "The field of the metadata by whose values documents are grouped.",
            _name,
            expected="the name of a field of the metadata",
            bounds={"min_length": 1, "max_length": 256},
            ranks=False,
            printed=False,
            single=True,
        ),
    ] = None
    group_size: Annotated[
        int,
        SearchOption(
            "Documents of each group.",
            least=1,
            ranks=False,
            printed=False,
            single=True,
        ),
    ] = DEFAULT_GROUP_SIZE
    embedding: Annotated[
        tuple[float, ...] | None,
        SearchOption(
            "The embedding of the query, instead of a query; a hybrid search takes both.",
            check_embedding,
            printed=False,
            single=True,
        ),
    ] = None

    boost: Annotated[
        "Boosts | None",
        SearchOption(
            "What documents gain by their metadata, in JSON: "
            '{"field": "modified", "half_life_days": 30, "weight": 0.1}.',
            _boosts,
            unset="the index's",
        ),
    ] = None
    sort: Annotated[
        str | None,
        SearchOption(
            "Put the documents that answer into the order of a field: modified:desc, or asc.",
            _sort,
            unset="by their scores",
            expected='a field and its direction, such as "modified:desc" or "year:asc",',
            bounds={"max_length": 300, "pattern": SORT},
        ),
    ] = None
    format: Annotated[
        Format,
        _choice(
            "Documents with their best passages (hits), or a text for a language model (context).",
            FORMATS,
            ranks=False,
            printed=False,
            single=True,
        ),
    ] = "hits"
    max_tokens: Annotated[
        int,
        SearchOption(
            "The most tokens of a context, of four bytes each.",
            _tokens,
            expected=f"a whole number from 1 to {MOST_TOKENS}",
            bounds={"ge": 1, "le": MOST_TOKENS},
            ranks=False,
            printed=False,
            single=True,
        ),
    ] = 2_000

    def __post_init__(self) -> None:
        check_values(self)
        if self.embedding is None:
            check_query(self.query)
        elif not self.query:
            self._check_without_query()
        elif self.mode == "lexical":
            raise RequestConflictError(
                "embedding", 'mode is "lexical", which takes no embedding: leave out one of the two'
            )
        # The ranks, and so the order, depend on how many documents are asked for.
        alone = {
            "weight": self.weight is not None,
            "offset": self.offset,
            "boost": self.boost,
            "sort": self.sort,
        }
        if self.fusion != "weighted" and any(alone.values()):
            name = next(name for name, is_given in alone.items() if is_given)
            raise RequestConflictError(
                "fusion",
                f"fusion is {shown(self.fusion)}, which takes no {name}: give one of the two",
            )
        if self.weight is not None and self.mode not in {None, "hybrid"}:
            raise RequestConflictError(
                "weight",
                f'mode is "{self.mode}", but a weight is for "hybrid": give one of the two',
            )
        if self.group_size != DEFAULT_GROUP_SIZE and self.group_by is None:
            raise RequestConflictError(
                "group_size",
                f"group_size is {self.group_size}, but nothing is grouped: give group_by, too",
            )
        if self.highlight is not None and not self.include_text:
            raise RequestConflictError(
                "highlight",
                f'highlight is "{self.highlight}", but passages without their text have nothing to '
                "mark: ask for include_text true, or for no highlight",
            )
        if self.sort is not None and self.rerank is not None:
            raise RequestConflictError(
                "sort",
                f"sort is {shown(self.sort)}, but a re-ranker gives another order: give either "
                "sort or rerank",
            )
        if self.format == "context":
            self._check_context()
        if self.group_by is None:
            return
        reasons = {
            "offset": "have no pages",
            "rerank": "are not re-ranked",
            "sort": "are not sorted",
        }
        for name, reason in reasons.items():
            if value := getattr(self, name):
                sentence = f"{name} is {shown(value)}, but groups {reason}: give either {name} or"
                raise RequestConflictError(name, f"{sentence} group_by")

    def _check_context(self) -> None:
        given = {
            "group_by": self.group_by is not None,
            "highlight": self.highlight is not None,
            "include_text": not self.include_text,
        }
        for name in (name for name, is_given in given.items() if is_given):
            raise RequestConflictError(
                name,
                f'{name} is {shown(getattr(self, name))}, but format is "context", which takes no '
                f"{name}: leave out one of the two",
            )

    def _check_without_query(self) -> None:
        needed = {
            "mode": self.mode in {"hybrid", "lexical"},
            "highlight": self.highlight == "words",
            "rerank": self.rerank is not None,
        }
        for name in (name for name, is_needed in needed.items() if is_needed):
            raise RequestConflictError(
                name,
                f"{name} is {shown(getattr(self, name))}, which needs the words of a query: give "
                f"the query, too, or leave out {name}",
            )
        object.__setattr__(self, "mode", "dense")

    @property
    def least_score(self) -> float:
        """The score that documents have at least."""
        return -inf if self.min_score is None else self.min_score

    def ranking(self, mode: Mode, weight: float, boosts: "Boosts" = ()) -> str:
        """The JSON of what decides which documents are found, and in which order.

        :param mode: The mode of the search, like `weight` and `boosts`, where the request leaves it
            to the index.
        """
        values = {name: getattr(self, name) for name in _RANKING}
        values["boost"] = boosts
        for name in ("boost", "sort", "embedding"):  # cursors of earlier versions know none
            if not values[name]:
                del values[name]
        if self.embedding is not None:  # thousands of numbers take milliseconds to write
            values["embedding"] = blake2b(array("d", self.embedding)).hexdigest()
        values["mode"], values["filter"] = mode, self.filter or _no_filter()
        values["weight"] = weight if mode == "hybrid" else None
        return _JSON.encode(values)


_JSON = json.JSONEncoder(default=repr)


@cache
def _no_filter() -> str:
    """The filter in the JSON of a request that has none: the filter that all documents pass."""
    from swiftlet.index.columns.filters import Every

    return repr(Every(()))


OPTIONS: dict[str, SearchOption] = options_of(SearchRequest)
"""The options of a request, by the names of its fields."""

_RANKING = [name for name, option in OPTIONS.items() if option.ranks]


def check_rerank(rerank: object, reranker: object) -> None:
    """Refuse a re-ranker that would not be used.

    :raises InvalidArgumentError: When there is a re-ranker, but not how many documents it orders.
    """
    if reranker is not None and rerank is None:
        raise InvalidArgumentError(
            "there is a re-ranker, but not how many of the best documents it orders: pass --rerank "
            "20, too (in Python rerank=20)"
        )
