"""The base of samplers that draw at random."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from typing_extensions import override

from training.objective.negatives.sampler import (
    NO_ROW,
    NamedSampler,
    PerQuery,
    QueryBatch,
    Rows,
    SamplerInputs,
)


class SeededSampler(NamedSampler):
    """Draws each batch with its own random generator.

    The generator depends only on the seed and the number of the draw. It is the same on every
    device and in every process, and the number of the draw is the whole state.
    """

    def __init__(self, settings: PerQuery, inputs: SamplerInputs) -> None:
        self.inputs, self.known, self.seed = inputs, inputs.known, inputs.seed
        self.per_query = settings.per_query
        self._draws = 0

    @override
    def draw(self, batch: QueryBatch) -> Rows:
        own_seed = np.random.SeedSequence(self.seed, spawn_key=(self._draws,))
        self._draws += 1
        return self._draw(batch, np.random.default_rng(own_seed))

    def _draw(self, batch: QueryBatch, random: np.random.Generator) -> Rows:
        raise NotImplementedError

    @override
    def state(self) -> Mapping[str, Any]:
        return {"draws": self._draws}

    @override
    def restore(self, state: Mapping[str, Any]) -> None:
        self._draws = int(state["draws"])


def choose(candidates: Rows, count: int, random: np.random.Generator) -> Rows:
    """Choose `count` of each line of `candidates` (n, m) at random, (n, count).

    NO_ROW is only chosen if a line has too few candidates.
    """
    keys = random.random(candidates.shape)
    keys[candidates == NO_ROW] = np.inf
    order = np.argsort(keys, axis=1)[:, :count]
    chosen = np.full((len(candidates), count), NO_ROW, dtype=np.int64)
    chosen[:, : order.shape[1]] = np.take_along_axis(candidates, order, axis=1)
    return chosen
