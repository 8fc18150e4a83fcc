"""Hard negatives from an index that is rebuilt at regular steps."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from swiftlet.index.vectors import of_vectors
from swiftlet.index.vectors.faiss_index import FaissIndex
from swiftlet.index.vectors.faiss_search import FaissParameters
from swiftlet.index.vectors.vector_index import VectorIndex
from swiftlet.processors import available_processors
from swiftlet.types import Embeddings
from training.data.positives import KnownPositives
from training.objective.negatives.sampler import NO_ROW, EncodeDocuments, QueryBatch, Rows
from training.objective.negatives.seeded import Seed, SeededSampler, at_least, choose

EncodeQueries = Callable[[NDArray[np.int64]], torch.Tensor]
"""Embeddings (n, dim) of query numbers (n,) by the current query encoder, without gradient."""

_BLOCK = 8192
_PROBES = 64
_REFINE_FACTOR = 16


class MinedSampler(SeededSampler):
    """Draws uniformly from the passages nearest to a query, without its known positives.

    This is ANCE (Xiong et al., 2021) on one machine: every `refresh_every` steps, training waits
    until all passages and queries are encoded and searched again. With 0 it never does: these are
    the static negatives of STAR (Zhan et al., 2021). Memory: the index, which above
    20,000 passages takes about 1.25 bytes per dimension of a passage, the float32 embeddings of
    the sample that it is trained on, and 8 bytes per candidate.
    """

    def __init__(
        self,
        known: KnownPositives,
        *,
        encode_queries: EncodeQueries,
        num_passages: int,
        vectors: int = 1,
        per_query: int,
        depth: int,
        refresh_every: int,
        seed: Seed,
    ) -> None:
        """Draw `per_query` of the `depth` nearest passages. Call `prepare` or `restore` first.

        :param vectors: How many vectors a passage has.
        :raises InvalidArgumentError: When `per_query` is below 1, `refresh_every` below 0, or
            `depth` below `per_query`.
        """
        super().__init__(known, per_query=per_query, seed=seed)
        at_least("depth", depth, per_query)
        at_least("refresh_every", refresh_every, 0)
        self.encode_queries = encode_queries
        self.num_passages, self.vectors = num_passages, vectors
        self.depth = depth
        self.refresh_every = refresh_every
        self._steps = 0
        self._candidates = np.full((len(known), 0), NO_ROW, dtype=np.int64)

    def prepare(self, encode: EncodeDocuments) -> None:
        """Search the candidates of every query."""
        self._candidates = self._mine(encode)

    def _draw(self, batch: QueryBatch, random: np.random.Generator) -> Rows:
        return choose(self._candidates[batch.queries], self.per_query, random)

    def refresh(self, encode: EncodeDocuments) -> None:
        """Search the candidates again every `refresh_every` steps."""
        self._steps += 1
        if self.refresh_every and self._steps % self.refresh_every == 0:
            self._candidates = self._mine(encode)

    def state(self) -> Mapping[str, Any]:
        """The number of steps so far, and the candidates of every query."""
        return {**super().state(), "steps": self._steps, "candidates": self._candidates.copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue with the same candidates."""
        super().restore(state)
        self._steps = int(state["steps"])
        self._candidates = np.array(state["candidates"], dtype=np.int64)

    def _mine(self, encode: EncodeDocuments) -> Rows:
        """The nearest rows of all queries, (len(known), depth)."""
        index = passage_index(encode, self.num_passages, self.vectors, self.depth, self.seed)
        candidates = np.full((len(self.known), self.depth), NO_ROW, dtype=np.int64)

        def search(query: int, embedding: Embeddings) -> None:
            positives = self.known.of(query)
            _, rows = index.search(embedding, self.depth + len(positives))
            found = rows[~np.isin(rows, positives)][: self.depth]
            candidates[query, : len(found)] = found

        with ThreadPoolExecutor(available_processors()) as pool:
            for queries in _blocks(len(self.known)):
                for _ in pool.map(search, queries.tolist(), _array(self.encode_queries(queries))):
                    pass
        return candidates


def passage_index(
    encode: EncodeDocuments, num_passages: int, vectors: int, depth: int, seed: Seed
) -> VectorIndex:
    """An index of all passages, each encoded once, for searches of `depth` passages.

    :param vectors: How many vectors a passage has.
    """
    threads = available_processors()
    count = num_passages * vectors
    size = -(-FaissIndex.training_size(count) // vectors)
    random = np.random.default_rng(seed)
    sample = np.sort(random.choice(num_passages, size, replace=False))
    parts = [_array(encode(sample[start : start + _BLOCK])) for start in range(0, size, _BLOCK)]
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
            embeddings[is_new] = _array(encode(rows[is_new]))
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


def _array(embeddings: torch.Tensor) -> Embeddings:
    return np.ascontiguousarray(embeddings.detach().float().cpu().numpy())
