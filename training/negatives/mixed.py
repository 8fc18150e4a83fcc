"""Negatives of several samplers side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from training.negatives.sampler import (
    NO_ROW,
    EncodeDocuments,
    NegativeSampler,
    QueryBatch,
    Rows,
)


class MixedSampler(NegativeSampler):
    """Joins the lines of several samplers; a row that several draw stands where it came first."""

    def __init__(self, samplers: Sequence[NegativeSampler]) -> None:
        self.samplers = tuple(samplers)

    def prepare(self, encode: EncodeDocuments) -> None:
        """Get all ready."""
        for sampler in self.samplers:
            sampler.prepare(encode)

    def draw(self, batch: QueryBatch) -> Rows:
        """The negatives of all samplers, (n, sum of their widths), in their order."""
        drawn = [sampler.draw(batch) for sampler in self.samplers]
        return without_repetition(np.concatenate(drawn, axis=1))

    def update(self, rows: Rows, embeddings: torch.Tensor) -> None:
        """Let all take note of embeddings (m, dim) that the step has just made of `rows` (m,)."""
        for sampler in self.samplers:
            sampler.update(rows, embeddings)

    def refresh(self, encode: EncodeDocuments) -> None:
        """Let all do what is due after an optimiser step."""
        for sampler in self.samplers:
            sampler.refresh(encode)

    def cached(self, rows: Rows) -> torch.Tensor | None:
        """What the first sampler keeps that has the row, (m, dim); NaN where none has it."""
        known = [found for sampler in self.samplers if (found := sampler.cached(rows)) is not None]
        if not known:
            return None
        merged = known[0]
        for found in known[1:]:
            merged = torch.where(merged.isnan(), found.to(merged.device), merged)
        return merged

    def state(self) -> Mapping[str, Any]:
        """The states of all."""
        return {"samplers": [sampler.state() for sampler in self.samplers]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from the states of all."""
        for sampler, own in zip(self.samplers, state["samplers"], strict=True):
            sampler.restore(own)


def without_repetition(rows: Rows) -> Rows:
    """`rows` (n, m) with NO_ROW where a line has the same row further left."""
    order = np.argsort(rows, axis=1, kind="stable")
    ascending = np.take_along_axis(rows, order, axis=1)
    repeated = np.zeros(rows.shape, dtype=np.bool_)
    np.put_along_axis(repeated, order[:, 1:], ascending[:, 1:] == ascending[:, :-1], axis=1)
    return np.where(repeated, NO_ROW, rows)
