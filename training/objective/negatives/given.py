"""Negatives that come with the training data, such as MS MARCO's triples."""

from typing import Any

import numpy as np
from typing_extensions import override

from swiftlet.errors import InvalidArgumentError
from training.objective.negatives.sampler import (
    NO_ROW,
    PerQuery,
    QueryBatch,
    Rows,
    SamplerInputs,
)
from training.objective.negatives.seeded import SeededSampler, choose


class GivenSampler(SeededSampler):
    """Draws from all negatives of a query in the data, without replacement."""

    def __init__(self, settings: PerQuery, inputs: SamplerInputs) -> None:
        super().__init__(settings, inputs)
        if inputs.given_negatives is None:
            raise InvalidArgumentError(
                "negatives.samplers has 'given', but the data have no triples"
            )
        present = inputs.given_negatives != NO_ROW
        found = np.column_stack((inputs.pairs[present, 0], inputs.given_negatives[present]))
        table = np.unique(found, axis=0)
        self._rows = table[:, 1]
        self._ends = np.searchsorted(table[:, 0], np.arange(len(self.known) + 1))

    @classmethod
    @override
    def check(cls, recipe: Any) -> None:
        if all(source.triples is None for source in recipe.data):
            raise ValueError("negatives.samplers has 'given', but no source in data has triples")

    @override
    def _draw(self, batch: QueryBatch, random: np.random.Generator) -> Rows:
        found = [self._rows[self._ends[q] : self._ends[q + 1]] for q in batch.queries]
        width = max((1, *map(len, found)))
        candidates = np.full((len(found), width), NO_ROW, dtype=np.int64)
        for line, rows in zip(candidates, found, strict=True):
            line[: len(rows)] = rows
        candidates[self.known.mask(batch.queries, candidates)] = NO_ROW
        return choose(candidates, self.per_query, random)
