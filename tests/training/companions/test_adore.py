"""Dynamic negatives: what the query encoder finds now, of documents that stay."""

import numpy as np
import torch

from tests.training.objective.negatives.test_samplers import DOCUMENTS, NUM_PASSAGES, POSITIVES
from training.companions.adore import DynamicSampler
from training.data.positives import KnownPositives
from training.objective.negatives.sampler import QueryBatch, Rows

KNOWN = KnownPositives([np.array(sorted(rows)) for rows in POSITIVES])


def nearest(embedding: torch.Tensor, query: int, count: int) -> list[int]:
    best = (DOCUMENTS @ embedding).argsort(descending=True).tolist()
    return [row for row in best if row not in POSITIVES[query]][:count]


def test_negatives_follow_the_query_encoder_and_documents_are_encoded_once() -> None:
    encoded: list[int] = []

    def encode(rows: Rows) -> torch.Tensor:
        encoded.extend(rows.tolist())
        return DOCUMENTS[rows]

    sampler = DynamicSampler(KNOWN, encode=encode, num_passages=NUM_PASSAGES, per_query=5, seed=0)
    queries = np.array([3, 7])
    for seed in range(4):
        embeddings = torch.randn(2, 8, generator=torch.Generator().manual_seed(seed))
        embeddings = torch.nn.functional.normalize(embeddings, dim=1)
        batch = QueryBatch(queries, np.array([15, 35]), embeddings)
        expected = [nearest(e, q, 5) for e, q in zip(embeddings, queries.tolist(), strict=True)]
        assert sampler.draw(batch).tolist() == expected
    assert sorted(encoded) == list(range(NUM_PASSAGES))


def test_the_best_vector_of_a_passage_counts() -> None:
    vectors = DOCUMENTS.reshape(NUM_PASSAGES // 2, -1)
    known = KnownPositives([np.array([0])])
    sampler = DynamicSampler(
        known, encode=lambda rows: vectors[rows], num_passages=30, vectors=2, per_query=4, seed=0
    )
    (embedding,) = torch.nn.functional.normalize(torch.ones(1, 8), dim=1)
    scores = (DOCUMENTS @ embedding).reshape(30, 2).amax(1)
    best = [row for row in scores.argsort(descending=True).tolist() if row != 0][:4]
    batch = QueryBatch(np.array([0]), np.array([0]), embedding.unsqueeze(0))
    assert sampler.draw(batch).tolist() == [best]
