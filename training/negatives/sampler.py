"""What every negative sampler is."""

# What a sampler does by default needs no arguments.
# ruff: noqa: ARG002

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

Rows = NDArray[np.int64]
"""Passage rows; NO_ROW stands where there is none."""

NO_ROW = -1

EncodeDocuments = Callable[[Rows], torch.Tensor]
"""Embeddings (n, dim) of passage rows (n,) by the document encoder as it is now, no gradient."""


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """What a sampler may look at: the batch of all processes together.

    `queries` (n,) are query numbers, `positives` (n,) the passage rows they are paired with and
    `embeddings` (n, dim) the query encoder's normalised output, without gradient.
    """

    queries: NDArray[np.int64]
    positives: Rows
    embeddings: torch.Tensor


class NegativeSampler(Protocol):
    """Draws negatives; the same seed and calls give the same rows, in every process of a run.

    No row is ever a known positive of its query, nor stands twice in its line. A sampler that
    inherits from here keeps nothing and has nothing to do between draws, unless it says otherwise.
    """

    def prepare(self, encode: EncodeDocuments) -> None:
        """Get ready, once, before the first draw of a run that does not resume."""
        return

    def draw(self, batch: QueryBatch) -> Rows:
        """Negatives for each query, (n, per_query), NO_ROW where there are not enough."""
        ...

    def update(self, rows: Rows, embeddings: torch.Tensor) -> None:
        """Take note of embeddings (m, dim) that the step has just made of `rows` (m,)."""
        return

    def refresh(self, encode: EncodeDocuments) -> None:
        """Do what is due after an optimiser step."""
        return

    def cached(self, rows: Rows) -> torch.Tensor | None:
        """Embeddings (m, dim) of `rows` (m,) as last seen, NaN where none is kept of a row.

        None if this sampler never keeps any.
        """
        return None

    def state(self) -> Mapping[str, Any]:
        """What `restore` needs to go on: numbers, strings, arrays and tensors, perhaps nested.

        A copy: what the sampler does later does not change it.
        """
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of a sampler that was made with the same arguments."""
        return
