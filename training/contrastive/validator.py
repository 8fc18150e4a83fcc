"""Measures alignment, embedding statistics and retrieval quality on the validation set."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from swiftlet.evaluation.metrics import evaluate
from swiftlet.index.vectors import of_vectors
from swiftlet.index.vectors.faiss_index import FaissIndex
from swiftlet.index.vectors.tuning import exact_rows, tune
from swiftlet.index.vectors.vector_index import VectorIndex, num_candidates_for
from swiftlet.search.ranking import best_passages
from swiftlet.types import Embeddings, Run
from training.contrastive.batch_encoder import BatchEncoder
from training.contrastive.collapse import EmbeddingStatistics
from training.data.passages import Passages
from training.data.validation_set import ValidationSet
from training.objective.divergence import kl_estimate
from training.objective.negatives.mined import array_of
from training.objective.negatives.sampler import Rows

METRICS = ("nDCG@10", "MRR@10", "R@100")
_TOP_K = 100
_TUNED_ON = 200
_BLOCK = 8192


class Encoders(Protocol):
    """The encoders of queries and of passages, such as a `BatchEncoder`."""

    def queries(self, texts: Sequence[str]) -> torch.Tensor:
        """Normalised embeddings (n, dim) of `texts`."""
        ...

    def passages(self, passages: Passages, rows: Rows) -> torch.Tensor:
        """Normalised embeddings (n, document_width) of passage rows."""
        ...


@dataclass(frozen=True, slots=True)
class Validator:
    """Measures a dual encoder on a validation set.

    `sample` limits the queries and passages for the KL estimate and the embedding statistics.
    `factory` is the FAISS index for retrieval, by default the one that `swiftlet index` chooses for
    this number of passages.
    """

    validation: ValidationSet
    sample: int
    factory: str | None = None

    def divergence(self, encoder: BatchEncoder) -> float:
        """The KL estimate between the towers (001, eq. 9), each with half of the queries."""
        texts, dual = self._sampled_queries(), encoder.dual_encoder
        queries, outputs = encoder.queries(texts[1::2]), encoder.as_queries(texts[::2])
        with torch.no_grad():
            return kl_estimate(dual.project_one(outputs), queries)

    def embedding_statistics(
        self, encoder: BatchEncoder
    ) -> tuple[EmbeddingStatistics, EmbeddingStatistics]:
        """The statistics of query embeddings, and of all vectors of passages."""
        rows = self.validation.rows
        chosen = rows[_evenly(len(rows), self.sample)]
        queries = encoder.queries(self._sampled_queries())
        passages = encoder.passages(self.validation.passages, chosen)
        vectors = passages.reshape(-1, queries.shape[1])
        return EmbeddingStatistics.of(queries), EmbeddingStatistics.of(vectors)

    def _sampled_queries(self) -> list[str]:
        queries = self.validation.queries
        return [queries[place] for place in _evenly(len(queries), self.sample)]

    def quality(self, encoder: Encoders) -> dict[str, float]:
        """`METRICS` of ANN retrieval with the validation queries (001, section 4.2.1)."""
        return evaluate(self.run(encoder), self.validation.qrels, METRICS)

    def run(self, encoder: Encoders) -> Run:
        """The 100 best documents (maxP) of each validation query."""
        validation = self.validation
        queries = array_of(encoder.queries(validation.queries))
        # In blocks, since not all embeddings fit the memory of an accelerator.
        blocks = np.array_split(validation.rows, range(_BLOCK, len(validation.rows), _BLOCK))
        passages = [array_of(encoder.passages(validation.passages, rows)) for rows in blocks]
        return self._search(queries, np.concatenate(passages))

    def _search(self, queries: Embeddings, passages: Embeddings) -> Run:
        index = _filled(self.factory, queries, passages)
        owners = self.validation.passages.passage_to_document[self.validation.rows]
        document_ids = self.validation.passages.document_ids
        run: Run = {}
        for query_id, embedding in zip(self.validation.query_ids, queries, strict=True):
            candidates = num_candidates_for(_TOP_K)
            while True:
                scores, rows = best_passages(*index.search(embedding, candidates), owners)
                if len(rows) >= _TOP_K or candidates >= index.size:
                    break
                candidates *= 4
            run[query_id] = {
                document_ids[owners[row]]: float(score)
                for score, row in zip(scores[:_TOP_K], rows[:_TOP_K], strict=True)
            }
        return run


def _filled(factory: str | None, queries: Embeddings, passages: Embeddings) -> VectorIndex:
    size, dim = len(passages), queries.shape[1]
    vectors = passages.shape[1] // dim
    factory = factory or FaissIndex.default_factory(size * vectors, dim)
    index = of_vectors(FaissIndex.create(factory, dim), vectors)
    threads = torch.get_num_threads()
    count = index.training_size(size)
    # Sampled, since collections are seldom in random order.
    sample = np.sort(np.random.default_rng(0).choice(size, count, replace=False))
    index.train(passages if count == size else passages[sample], threads=threads)
    index.add(passages, threads=threads)
    if index.tuning_grid():
        tuned_on = queries[:_TUNED_ON]
        tune(index, passages, tuned_on, exact_rows(passages, tuned_on, 10))
    return index


def _evenly(count: int, sample: int) -> NDArray[np.int64]:
    """At most `sample` of the numbers below `count`, evenly spaced."""
    return np.linspace(0, count - 1, min(sample, count)).astype(np.int64)
