"""The base of samplers that draw at random."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from swiftlet.errors import InvalidArgumentError
from training.data.positives import KnownPositives
from training.objective.negatives.sampler import NO_ROW, NegativeSampler, QueryBatch, Rows, Seed


class SeededSampler(NegativeSampler):
    """Draws each batch with its own random generator.

    The generator depends only on the seed and the number of the draw. It is the same on every
    device and in every process, and the number of the draw is the whole state.
    """

    def __init__(self, known: KnownPositives, *, per_query: int, seed: Seed) -> None:
        """Draw `per_query` negatives for each query.

        :raises InvalidArgumentError: When `per_query` is not at least 1.
        """
        at_least("per_query", per_query, 1)
        self.known = known
        self.per_query = per_query
        self.seed = seed
        self._draws = 0

    def draw(self, batch: QueryBatch) -> Rows:
        """Negatives for each query, (n, per_query), filled with NO_ROW if there are too few."""
        own_seed = np.random.SeedSequence(self.seed, spawn_key=(self._draws,))
        self._draws += 1
        return self._draw(batch, np.random.default_rng(own_seed))

    def _draw(self, batch: QueryBatch, random: np.random.Generator) -> Rows:
        raise NotImplementedError

    def state(self) -> Mapping[str, Any]:
        """The number of draws so far."""
        return {"draws": self._draws}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue with the next draw."""
        self._draws = int(state["draws"])


def at_least(name: str, value: int, least: int) -> None:
    """Refuse a setting that is too small.

    :raises InvalidArgumentError: When `value` is below `least`.
    """
    if value < least:
        raise InvalidArgumentError(f"{name} is {value}: at least {least} is expected")


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
