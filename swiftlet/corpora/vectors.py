"""Vectors that were made elsewhere: what every source of them gives."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from swiftlet.errors import CollectionError
from swiftlet.types import Embeddings

Metric = Literal["cosine", "inner_product", "l2"]
"""How near two vectors are: by their angle, their inner product, or their Euclidean distance."""


@dataclass(frozen=True, slots=True)
class VectorBlock:
    """Some rows of a source, and the vector of each.

    `rows` (n) have the fields of a line of JSON without the vector, none where the source has only
    vectors. `embeddings` (n, dim) are float32, as the source keeps them.
    """

    rows: Sequence[Mapping[str, Any]]
    embeddings: Embeddings


class SourceAwayError(CollectionError):
    """A source could not be read now; it may be later, from the row on that was reached."""


class VectorSource(Protocol):
    """Rows with vectors, in an order that stays; a row is a passage."""

    @property
    def name(self) -> str:
        """What a message calls it: a file, or an address without its password."""
        ...

    @property
    def dim(self) -> int:
        """The numbers of each vector."""
        ...

    @property
    def metric(self) -> Metric | None:
        """None where the source does not say."""
        ...

    @property
    def num_rows(self) -> int | None:
        """None where the source cannot count them beforehand."""
        ...

    def blocks(self, first: int = 0) -> Iterator[VectorBlock]:
        """All rows from the row `first` on, counted from 0; some thousand are in memory.

        :raises CollectionError: When a row is bad; it names the row.
        """
        ...
