"""The streaming negative cache (Lindgren et al., 2021) as DAFT uses it (001, section 4.1)."""

import math
from collections.abc import Mapping
from fractions import Fraction as Exact
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from typing_extensions import override

from training.objective.contrastive import scores
from training.objective.negatives.sampler import (
    NO_ROW,
    EncodeDocuments,
    PerQuery,
    QueryBatch,
    Rows,
    SamplerInputs,
    SeededSampler,
)
from training.tables import Fraction

_ENCODED_ROWS = 8192
_CONVERTED_SLOTS = 65_536
_SCORES_AT_ONCE = 2**25


class Cache(PerQuery):
    """The cache of negatives, and their gradient.

    `cache_fraction` is α and `refresh_fraction` ρ of section 4.1. With the `gradient` "re-encoded",
    one passage for each query is encoded again, and its gradient stands for that of all. With
    "cached", they are constants: this costs no encoding, but only the query encoder learns from
    them. The `choice` is the best passages, by default with "re-encoded", or a sample from the
    softmax of their scores, as in section 4.1.
    """

    gradient: Literal["re-encoded", "cached"] = "re-encoded"
    choice: Literal["best", "sample"] | None = None
    cache_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    refresh_fraction: Fraction = 0.001
    cache_precision: Literal["float32", "float16"] = "float32"


class NegativeCache(SeededSampler):
    """Draws from the softmax over the scores of cached document embeddings, or takes the best.

    The cache is a window of ⌈`cache_fraction` · passages⌉ passages that moves over all passages in
    a shuffled order, again and again. After each step it moves by ⌈`refresh_fraction` · size⌉
    passages: the oldest are replaced by the next ones. If the cache has all passages, the oldest
    are encoded again. Embeddings that a step computes replace the cached ones (`update`) without a
    change of the order, so frequently drawn passages do not stay longer.

    Cached embeddings are up to 1 / `refresh_fraction` steps old. Memory: size · width values of
    `cache_precision` on the device, and 16 bytes per passage of the collection on the CPU.
    """

    def __init__(self, settings: Cache, inputs: SamplerInputs) -> None:
        """Make an empty cache. Call `prepare` or `restore` before the first draw."""
        super().__init__(settings, inputs)
        num_passages = inputs.passages.num_passages
        self.size, self.num_refreshed = cache_sizes(
            num_passages, settings.cache_fraction, settings.refresh_fraction
        )
        self._scale = inputs.scale
        by_gradient = "best" if settings.gradient == "re-encoded" else "sample"
        self._takes_best = (settings.choice or by_gradient) == "best"
        dtype = getattr(torch, settings.cache_precision)
        self._embeddings = torch.zeros((self.size, inputs.width), dtype=dtype, device=inputs.device)
        # Passages enter in the order of `_order`. The n-th entry goes into slot n modulo the size,
        # so the slot of a row follows from the number of entries so far.
        self._order = np.random.default_rng(self.seed).permutation(num_passages)
        self._places = np.empty_like(self._order)
        self._places[self._order] = np.arange(num_passages)
        self._entered = 0

    @override
    def prepare(self, encode: EncodeDocuments) -> None:
        self._advance(self.size, encode)

    @override
    def _draw(self, batch: QueryBatch, random: np.random.Generator) -> Rows:
        queries = batch.embeddings.detach().to(self._embeddings.device, torch.float32)
        num_lines = max(1, _SCORES_AT_ONCE // self.size)
        drawn = np.empty((len(queries), self.per_query), dtype=np.int64)
        for start in range(0, len(queries), num_lines):
            part = slice(start, start + num_lines)
            drawn[part] = self._draw_lines(batch.queries[part], queries[part], random)
        return drawn

    def _draw_lines(
        self, numbers: NDArray[np.int64], embeddings: torch.Tensor, random: np.random.Generator
    ) -> Rows:
        found = self._scores(embeddings)
        if not self._takes_best:
            add_gumbel_noise(found, random)
        lines, positives = self.known.pairs(numbers)
        slots = self._slots(positives)
        cached = slots >= 0
        found[torch.from_numpy(lines[cached]), torch.from_numpy(slots[cached])] = -torch.inf
        columns = _best_columns(found, self.per_query)
        return np.where(columns < 0, NO_ROW, self._rows(columns))

    def _scores(self, queries: torch.Tensor) -> torch.Tensor:
        """Scaled scores (n, slots in use) of queries (n, dim)."""
        filled = self._embeddings[: self._num_filled]
        # There are fewer query values than scores to scale.
        scaled = queries * self._scale
        if filled.dtype == torch.float32:
            return scores(scaled, filled)
        blocks = torch.split(filled, _CONVERTED_SLOTS)
        return torch.cat([scores(scaled, block.float()) for block in blocks], dim=1)

    @override
    def update(self, rows: Rows, embeddings: torch.Tensor) -> None:
        """Replace the cached embeddings of `rows` (m,) by `embeddings` (m, width).

        If a row occurs twice, its first embedding is taken.
        """
        slots, firsts = np.unique(self._slots(rows), return_index=True)
        self._write(slots[slots >= 0], embeddings[torch.from_numpy(firsts[slots >= 0])])

    @override
    def refresh(self, encode: EncodeDocuments) -> None:
        self._advance(self.num_refreshed, encode)

    @override
    def cached(self, rows: Rows) -> torch.Tensor:
        slots = self._slots(rows)
        device = self._embeddings.device
        found = self._embeddings[torch.from_numpy(np.maximum(slots, 0)).to(device)].float()
        found[torch.from_numpy(slots < 0).to(device)] = torch.nan
        return found

    @override
    def state(self) -> Mapping[str, Any]:
        return {
            **super().state(),
            "entered": self._entered,
            "embeddings": self._embeddings.to("cpu", copy=True),
        }

    @override
    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._entered = int(state["entered"])
        self._embeddings.copy_(state["embeddings"])

    @property
    def _num_filled(self) -> int:
        return min(self._entered, self.size)

    def _advance(self, count: int, encode: EncodeDocuments) -> None:
        """Add the next `count` passages, each into the oldest slot at that time."""
        for start in range(0, count, _ENCODED_ROWS):
            entries = self._entered + np.arange(min(_ENCODED_ROWS, count - start))
            rows = self._order[entries % len(self._order)]
            self._write(entries % self.size, encode(rows))
            self._entered += len(entries)

    def _write(self, slots: NDArray[np.int64], embeddings: torch.Tensor) -> None:
        new = embeddings.detach().to(self._embeddings)
        self._embeddings[torch.from_numpy(slots).to(self._embeddings.device)] = new

    def _slots(self, rows: Rows) -> NDArray[np.int64]:
        """The slot of each of `rows`, -1 if it is not cached, in constant time per row."""
        oldest = self._entered - self._num_filled
        ages = (self._places[rows] - oldest) % len(self._order)
        return np.where((rows >= 0) & (ages < self._num_filled), (oldest + ages) % self.size, -1)

    def _rows(self, slots: NDArray[np.int64]) -> Rows:
        """The row in each of `slots`, which must be in use."""
        last = self._entered - 1
        return self._order[(last - (last - slots) % self.size) % len(self._order)]


def add_gumbel_noise(scores: torch.Tensor, random: np.random.Generator) -> None:
    """Add Gumbel noise to each score, in place.

    The largest of a line is then drawn from the softmax of its scores, and each next one from the
    softmax over the remaining ones (Gumbel-max trick, Plackett-Luce model).
    """
    generator = torch.Generator(scores.device).manual_seed(int(random.integers(2**63)))
    scores -= torch.empty_like(scores).exponential_(generator=generator).log_()


def _best_columns(scores: torch.Tensor, count: int) -> NDArray[np.int64]:
    """The columns with the highest scores of each line, (n, count), -1 for scores of -inf."""
    best = scores.topk(min(count, scores.shape[1]), dim=1)
    columns = best.indices.masked_fill(best.values.isneginf(), -1).cpu().numpy()
    return np.pad(columns, ((0, 0), (0, count - columns.shape[1])), constant_values=-1)


def cache_sizes(num_passages: int, fraction: float, refresh_fraction: float) -> tuple[int, int]:
    """The number of cached passages, and the number of them that are renewed after a step."""
    size = _ceil_of(fraction, num_passages)
    return size, _ceil_of(refresh_fraction, size)


def _ceil_of(fraction: float, whole: int) -> int:
    """⌈fraction · whole⌉ of the decimal fraction, without rounding errors: ⌈0.1 · 30⌉ is 3."""
    return math.ceil(Exact(str(fraction)) * whole)
