"""Combines the negatives of several samplers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from typing_extensions import override

from training.objective.negatives.sampler import (
    NO_ROW,
    EncodeDocuments,
    NegativeSampler,
    QueryBatch,
    Rows,
)


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
