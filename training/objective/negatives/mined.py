"""Hard negatives from an index that is rebuilt at regular steps."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from typing_extensions import override

from swiftlet.index.vectors import of_vectors
from swiftlet.index.vectors.faiss_index import FaissIndex
from swiftlet.index.vectors.faiss_search import FaissParameters
from swiftlet.index.vectors.vector_index import VectorIndex
from swiftlet.processors import available_processors
from swiftlet.types import Embeddings
from training.data.positives import KnownPositives
from training.objective.negatives.sampler import (
    NO_ROW,
    Depth,
    EncodeDocuments,
    QueryBatch,
    Rows,
    SamplerInputs,
    SeededSampler,
    check_depth,
    choose,
)

_BLOCK = 8192
_PROBES = 64
_REFINE_FACTOR = 16


class Mined(Depth):
    """Passages are searched again every `refresh_every` steps."""

    refresh_every: Annotated[int, Field(ge=0, description="steps; 0 for never")] = 1000


class MinedSampler(SeededSampler):
    """Draws uniformly from the passages nearest to a query, without its known positives.

    This is ANCE (Xiong et al., 2021) on one machine: every `refresh_every` steps, training waits
    until all passages and queries are encoded and searched again. With 0 it never does: these are
    the static negatives of STAR (Zhan et al., 2021). Memory: the index, which above
    20,000 passages takes about 1.25 bytes per dimension of a passage, the float32 embeddings of
    the sample that it is trained on, and 8 bytes per candidate.
    """

    def __init__(self, settings: Mined, inputs: SamplerInputs) -> None:
        """Draw of the `depth` nearest passages. Call `prepare` or `restore` first."""
        super().__init__(settings, inputs)
        self.depth, self.refresh_every = settings.depth, settings.refresh_every
        self._steps = 0
        self._candidates = np.full((len(self.known), 0), NO_ROW, dtype=np.int64)

    @classmethod
    @override
    def check(cls, recipe: Any) -> None:
        check_depth(recipe)

    @override
    def prepare(self, encode: EncodeDocuments) -> None:
        self._candidates = self._mine(encode)

    @override
    def _draw(self, batch: QueryBatch, random: np.random.Generator) -> Rows:
        return choose(self._candidates[batch.queries], self.per_query, random)

    @override
    def refresh(self, encode: EncodeDocuments) -> None:
        self._steps += 1
        if self.refresh_every and self._steps % self.refresh_every == 0:
            self._candidates = self._mine(encode)

    @override
    def state(self) -> Mapping[str, Any]:
        return {**super().state(), "steps": self._steps, "candidates": self._candidates.copy()}

    @override
    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._steps = int(state["steps"])
        self._candidates = np.array(state["candidates"], dtype=np.int64)

    def _mine(self, encode: EncodeDocuments) -> Rows:
        """The nearest rows of all queries, (len(known), depth)."""
        index = passage_index(encode, self.inputs, self.depth)
        found: list[Rows] = []
        with ThreadPoolExecutor(available_processors()) as pool:
            for queries in _blocks(len(self.known)):
                embeddings = array_of(self.inputs.encode_queries(queries))
                search = partial(nearest_negatives, index, self.known, self.depth)
                found += pool.map(search, queries.tolist(), embeddings)
        return np.array(found, dtype=np.int64).reshape(-1, self.depth)


def nearest_negatives(
    index: VectorIndex, known: KnownPositives, count: int, query: int, embedding: Embeddings
) -> Rows:
    """The rows (count,) nearest to a query without its known positives, filled with NO_ROW."""
    positives = known.of(query)
    _, rows = index.search(embedding, count + len(positives))
    found = rows[~np.isin(rows, positives)][:count]
    return np.pad(found, (0, count - len(found)), constant_values=NO_ROW)


def passage_index(encode: EncodeDocuments, inputs: SamplerInputs, depth: int) -> VectorIndex:
    """An index of all passages, each of which is encoded once, for searches of `depth` passages."""
    threads, vectors = available_processors(), inputs.vectors
    num_passages = inputs.passages.num_passages
    count = num_passages * vectors
    size = -(-FaissIndex.training_size(count) // vectors)
    random = np.random.default_rng(inputs.seed)
    sample = np.sort(random.choice(num_passages, size, replace=False))
    parts = [array_of(encode(sample[start : start + _BLOCK])) for start in range(0, size, _BLOCK)]
    sampled = np.concatenate(parts)
    width = sampled.shape[1]
    dim = width // vectors
    engine = FaissIndex.create(FaissIndex.default_factory(count, dim), dim)
    index = of_vectors(engine, vectors)
    index.train(sampled, threads=threads)
    for rows in _blocks(num_passages):
        embeddings = np.empty((len(rows), width), dtype=np.float32)
        first, last = np.searchsorted(sample, [rows[0], rows[-1] + 1])
        is_new = np.ones(len(rows), dtype=np.bool_)
        is_new[sample[first:last] - rows[0]] = False
        embeddings[~is_new] = sampled[first:last]
        if is_new.any():
            embeddings[is_new] = array_of(encode(rows[is_new]))
        index.add(embeddings, threads=threads)
    index.parameters = FaissParameters(
        probes=min(_PROBES, engine.most_probes),
        refine_factor=_REFINE_FACTOR,
        num_candidates=depth,
    )
    return index


def _blocks(count: int) -> Iterator[NDArray[np.int64]]:
    """0 up to `count` in ascending blocks."""
    for start in range(0, count, _BLOCK):
        yield np.arange(start, min(start + _BLOCK, count))


def array_of(embeddings: torch.Tensor) -> Embeddings:
    """Embeddings in float32 in NumPy, as indexes take them."""
    return np.ascontiguousarray(embeddings.detach().float().cpu().numpy())
