"""The protocol of negative samplers."""

# The default methods ignore their arguments.
# ruff: noqa: ARG002

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

Rows = NDArray[np.int64]
"""Passage rows. NO_ROW marks an empty place."""

NO_ROW = -1

EncodeDocuments = Callable[[Rows], torch.Tensor]
"""Embeddings (n, dim) of passage rows (n,) by the current document encoder, without gradient."""


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """The input of a sampler: the batch of all processes together.

    `queries` (n,) are query numbers, `positives` (n,) the passage rows they are paired with, and
    `embeddings` (n, dim) the normalised query embeddings, without gradient.
    """

    queries: NDArray[np.int64]
    positives: Rows
    embeddings: torch.Tensor


class NegativeSampler(Protocol):
    """Draws negatives. The same seed and calls give the same rows in every process of a run.

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
