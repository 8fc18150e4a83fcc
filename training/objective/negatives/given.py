"""Negatives that come with the training data, such as MS MARCO's triples."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from swiftlet.errors import InvalidArgumentError
from training.data.positives import KnownPositives
from training.objective.negatives.sampler import (
    NO_ROW,
    PerQuery,
    QueryBatch,
    Rows,
    SamplerInputs,
    Seed,
)
from training.objective.negatives.seeded import SeededSampler, choose


class GivenSampler(SeededSampler):
    """Draws from all negatives of a query in the data, without replacement."""

    def __init__(
        self,
        known: KnownPositives,
        *,
        pairs: NDArray[np.int64],
        given: Rows,
        per_query: int,
        seed: Seed,
    ) -> None:
        """Take the negative `given` (p,) for each of `pairs` (p, 2), NO_ROW if there is none.

        :raises InvalidArgumentError: When `per_query` is below 1.
        """
        super().__init__(known, per_query=per_query, seed=seed)
        present = given != NO_ROW
        table = np.unique(np.column_stack((pairs[present, 0], given[present])), axis=0)
        self._rows = table[:, 1]
        self._ends = np.searchsorted(table[:, 0], np.arange(len(known) + 1))

    @classmethod
    @override
    def of(cls, settings: PerQuery, inputs: SamplerInputs) -> Self:
        if inputs.given_negatives is None:
            raise InvalidArgumentError(
                "negatives.samplers has 'given', but the data have no triples"
            )
        return cls(
            inputs.known,
            pairs=inputs.pairs,
            given=inputs.given_negatives,
            per_query=settings.per_query,
            seed=inputs.seed,
        )

    @classmethod
    @override
    def check(cls, recipe: Any) -> None:
        if all(source.triples is None for source in recipe.data):
            raise ValueError("negatives.samplers has 'given', but no source in data has triples")

    def _draw(self, batch: QueryBatch, random: np.random.Generator) -> Rows:
        found = [self._rows[self._ends[q] : self._ends[q + 1]] for q in batch.queries]
        width = max((1, *map(len, found)))
        candidates = np.full((len(found), width), NO_ROW, dtype=np.int64)
        for line, rows in zip(candidates, found, strict=True):
            line[: len(rows)] = rows
        candidates[self.known.mask(batch.queries, candidates)] = NO_ROW
        return choose(candidates, self.per_query, random)
