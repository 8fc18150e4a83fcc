"""The passages that the current query encoder finds, through an index of frozen documents."""

import numpy as np

from swiftlet.index.vectors.vector_index import VectorIndex
from training.data.positives import KnownPositives
from training.objective.negatives.mined import passage_index
from training.objective.negatives.sampler import NO_ROW, EncodeDocuments, QueryBatch, Rows
from training.objective.negatives.seeded import Seed, SeededSampler


class DynamicSampler(SeededSampler):
    """Takes the passages nearest to each query now, without its known positives.

    These are the dynamic negatives of ADORE (Zhan et al., "Optimizing Dense Retrieval Model
    Training with Hard Negatives", 2021, section 4.2). The document encoder must not change: its
    index is built once, at the first draw, and searched in every step. Memory: the index.
    """

    def __init__(
        self,
        known: KnownPositives,
        *,
        encode: EncodeDocuments,
        num_passages: int,
        vectors: int = 1,
        per_query: int,
        seed: Seed,
    ) -> None:
        """Take the `per_query` nearest passages.

        :param vectors: How many vectors a passage has.
        :raises InvalidArgumentError: When `per_query` is below 1.
        """
        super().__init__(known, per_query=per_query, seed=seed)
        self._encode, self._num_passages, self._vectors = encode, num_passages, vectors
        self._index: VectorIndex | None = None

    def _draw(self, batch: QueryBatch, random: np.random.Generator) -> Rows:  # noqa: ARG002
        if self._index is None:
            self._index = passage_index(
                self._encode, self._num_passages, self._vectors, self.per_query, self.seed
            )
        nearest = np.full((len(batch.queries), self.per_query), NO_ROW, dtype=np.int64)
        embeddings = batch.embeddings.detach().float().cpu().numpy()
        for line, query, embedding in zip(nearest, batch.queries.tolist(), embeddings, strict=True):
            positives = self.known.of(query)
            _, rows = self._index.search(embedding, self.per_query + len(positives))
            found = rows[~np.isin(rows, positives)][: self.per_query]
            line[: len(found)] = found
        return nearest
