"""The protocol of negative samplers, the base of samplers that draw at random, and mixtures."""

# The default methods ignore their arguments.
# ruff: noqa: ARG002, ARG003

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import override

from training.data.passages import PassageTexts
from training.data.positives import KnownPositives
from training.tables import Count, Table

Rows = NDArray[np.int64]
"""Passage rows. NO_ROW marks an empty place."""

NO_ROW = -1

EncodeDocuments = Callable[[Rows], torch.Tensor]
"""Embeddings (n, dim) of passage rows (n,) by the current document encoder, without gradient."""

EncodeQueries = Callable[[NDArray[np.int64]], torch.Tensor]
"""Embeddings (n, dim) of query numbers (n,) by the current query encoder, without gradient."""

Seed = int | tuple[int, ...]
"""One number, or several numbers that form a seed together."""


class PerQuery(Table):
    """|D⁻|: how many negatives a sampler draws for a query."""

    per_query: Count = 64


class Depth(PerQuery):
    """Negatives are drawn from the `depth` best passages of a query."""

    depth: Count = 200


def check_depth(recipe: Any) -> None:
    """Refuse a recipe whose samplers draw more passages than they search.

    :raises ValueError: When `depth` is below `per_query`.
    """
    depth, per_query = recipe.negatives.depth, recipe.negatives.per_query
    if depth < per_query:
        raise ValueError(
            f"negatives.depth is {depth}: at least per_query, {per_query}, is expected"
        )


@dataclass(frozen=True, slots=True)
class SamplerInputs:
    """The data and the encoders that samplers are made of.

    `known` has the known positives of each query number. `pairs` (p, 2) are query numbers and
    positive rows, and `given_negatives` (p,) the rows that come with them, if any do. A passage has
    `vectors` vectors, `width` numbers in all. `scale` is the factor of scores in the loss, and
    `device` the device of embeddings.
    """

    known: KnownPositives
    queries: Sequence[str]
    passages: PassageTexts
    pairs: NDArray[np.int64]
    given_negatives: Rows | None
    encode_queries: EncodeQueries
    encode_passages: EncodeDocuments
    vectors: int
    width: int
    scale: float
    device: torch.device
    seed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """The input of a sampler.

    `queries` (n,) are query numbers, `positives` (n,) the passage rows they are paired with, and
    `embeddings` (n, dim) the normalised query embeddings, without gradient.
    """

    queries: NDArray[np.int64]
    positives: Rows
    embeddings: torch.Tensor


class NegativeSampler(Protocol):
    """Draws negatives. The same seed and calls give the same rows.

    A drawn row is never a known positive of its query, and occurs only once for a query. By
    default a sampler has no state and does nothing between draws.
    """

    def prepare(self, encode: EncodeDocuments) -> None:
        """Prepare the first draw. A resumed run calls `restore` instead."""
        return

    def draw(self, batch: QueryBatch) -> Rows:
        """Negatives for each query, (n, per_query), filled with NO_ROW if there are too few."""
        ...

    def update(self, rows: Rows, embeddings: torch.Tensor) -> None:
        """Receive the current embeddings (m, dim) of `rows` (m,), computed by a training step."""
        return

    def refresh(self, encode: EncodeDocuments) -> None:
        """Update the sampler after an optimiser step."""
        return

    def cached(self, rows: Rows) -> torch.Tensor | None:
        """The kept embeddings (m, dim) of `rows` (m,), NaN for rows that are not kept.

        None if this sampler keeps no embeddings.
        """
        return None

    def state(self) -> Mapping[str, Any]:
        """The state for `restore`: numbers, strings, arrays and tensors, possibly nested.

        A copy, which later draws do not change.
        """
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from the state of a sampler that was made with the same arguments."""
        return


class NamedSampler(NegativeSampler, Protocol):
    """A sampler that a recipe can name. It has a table of its own in [negatives]."""

    def __init__(self, settings: Any, inputs: SamplerInputs) -> None:
        """Make the sampler with the settings of [negatives].

        :raises InvalidArgumentError: When the settings contradict the data.
        """
        ...

    @classmethod
    def check(cls, recipe: Any) -> None:
        """Check that the sampler goes together with the other settings of a recipe.

        :raises ValueError: When it does not.
        """
        return


class SeededSampler(NamedSampler):
    """Draws each batch with its own random generator.

    The generator depends only on the seed and the number of the draw. It is the same on every
    device, and the number of the draw is the whole state.
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


class MixedSampler(NegativeSampler):
    """Joins the negatives of several samplers. Repeated rows of a query are replaced by NO_ROW."""

    def __init__(self, samplers: Sequence[NegativeSampler]) -> None:
        self.samplers = tuple(samplers)

    @override
    def prepare(self, encode: EncodeDocuments) -> None:
        for sampler in self.samplers:
            sampler.prepare(encode)

    @override
    def draw(self, batch: QueryBatch) -> Rows:
        drawn = [sampler.draw(batch) for sampler in self.samplers]
        return without_repetition(np.concatenate(drawn, axis=1))

    @override
    def update(self, rows: Rows, embeddings: torch.Tensor) -> None:
        for sampler in self.samplers:
            sampler.update(rows, embeddings)

    @override
    def refresh(self, encode: EncodeDocuments) -> None:
        for sampler in self.samplers:
            sampler.refresh(encode)

    @override
    def cached(self, rows: Rows) -> torch.Tensor | None:
        known = [found for sampler in self.samplers if (found := sampler.cached(rows)) is not None]
        if not known:
            return None
        merged = known[0]
        for found in known[1:]:
            merged = torch.where(merged.isnan(), found.to(merged.device), merged)
        return merged

    @override
    def state(self) -> Mapping[str, Any]:
        return {"samplers": [sampler.state() for sampler in self.samplers]}

    @override
    def restore(self, state: Mapping[str, Any]) -> None:
        for sampler, own in zip(self.samplers, state["samplers"], strict=True):
            sampler.restore(own)


def without_repetition(rows: Rows) -> Rows:
    """`rows` (n, m) with NO_ROW in place of every repetition within a line."""
    order = np.argsort(rows, axis=1, kind="stable")
    ascending = np.take_along_axis(rows, order, axis=1)
    repeated = np.zeros(rows.shape, dtype=np.bool_)
    np.put_along_axis(repeated, order[:, 1:], ascending[:, 1:] == ascending[:, :-1], axis=1)
    return np.where(repeated, NO_ROW, rows)
