"""How bags of words are compressed and measured: one frozen value for `fidelity`."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, get_args

from swiftlet.arguments import Option, check_values, one_of
from swiftlet.errors import InvalidArgumentError

Model = Literal["bm25", "boolean"]
Projection = Literal["rademacher", "gaussian"]

MODELS: tuple[Model, ...] = get_args(Model)
PROJECTIONS: tuple[Projection, ...] = get_args(Projection)


def _share(name: str, value: Any) -> float:
    if not 0 < value < 1:
        raise InvalidArgumentError(f"{name} is {value:g}, but must lie between 0 and 1")
    return float(value)


@dataclass(frozen=True, slots=True)
class Compression:
    """How texts and queries are scored, projected and chosen (002, section 2).

    :raises InvalidArgumentError: When a value is out of its range.
    """

    model: Annotated[
        Model,
        Option("The score: BM25, or the number of common words.", partial(one_of, choices=MODELS)),
    ] = "bm25"
    projection: Annotated[
        Projection, Option("The random matrix.", partial(one_of, choices=PROJECTIONS))
    ] = "rademacher"
    language: Annotated[
        str | None, Option("The language of the words.", unset="of the index, or english")
    ] = None
    error: Annotated[float, Option("The share of errors that is accepted.", _share)] = 0.05
    rank: Annotated[int, Option("The best text must stay among this number of texts.", least=1)] = (
        10
    )
    num_texts: Annotated[int, Option("Texts at most.", least=2)] = 10_000
    num_queries: Annotated[int, Option("Queries at most.", least=1)] = 200
    seed: Annotated[int, Option("Of the choice and of the matrix.", least=0)] = 0

    def __post_init__(self) -> None:
        check_values(self)
