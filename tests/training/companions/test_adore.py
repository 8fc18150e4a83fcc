"""Dynamic negatives: what the query encoder finds now, of documents that stay."""

import math

import numpy as np
import pytest
import torch

from tests.samplers import made
from tests.training.objective.negatives.test_samplers import DOCUMENTS, NUM_PASSAGES, POSITIVES
from training.companions.adore import DynamicSampler, LambdaLoss
from training.data.positives import KnownPositives
from training.objective.contrastive import Scale, ScoredBatch
from training.objective.negatives.sampler import QueryBatch, Rows

KNOWN = KnownPositives([np.array(sorted(rows)) for rows in POSITIVES])


def nearest(embedding: torch.Tensor, query: int, count: int) -> list[int]:
    best = (DOCUMENTS @ embedding).argsort(descending=True).tolist()
    return [row for row in best if row not in POSITIVES[query]][:count]


def test_negatives_follow_the_query_encoder_and_documents_are_encoded_once():
    encoded: list[int] = []

    def encode(rows: Rows) -> torch.Tensor:
        encoded.extend(rows.tolist())
        return DOCUMENTS[rows]

    settings = {"per_query": 5}
    sampler = made(DynamicSampler, KNOWN, NUM_PASSAGES, settings=settings, encode_passages=encode)
    queries = np.array([3, 7])
    for seed in range(4):
        embeddings = torch.randn(2, 8, generator=torch.Generator().manual_seed(seed))
        embeddings = torch.nn.functional.normalize(embeddings, dim=1)
        batch = QueryBatch(queries, np.array([15, 35]), embeddings)
        expected = [nearest(e, q, 5) for e, q in zip(embeddings, queries.tolist(), strict=True)]
        assert sampler.draw(batch).tolist() == expected
    assert sorted(encoded) == list(range(NUM_PASSAGES))


def test_the_best_vector_of_a_passage_counts():
    vectors = DOCUMENTS.reshape(NUM_PASSAGES // 2, -1)
    known = KnownPositives([np.array([0])])
    inputs = {"encode_passages": lambda rows: vectors[rows], "vectors": 2}
    sampler = made(DynamicSampler, known, 30, settings={"per_query": 4}, **inputs)
    (embedding,) = torch.nn.functional.normalize(torch.ones(1, 8), dim=1)
    scores = (DOCUMENTS @ embedding).reshape(30, 2).amax(1)
    best = [row for row in scores.argsort(descending=True).tolist() if row != 0][:4]
    batch = QueryBatch(np.array([0]), np.array([0]), embedding.unsqueeze(0))
    assert sampler.draw(batch).tolist() == [best]


def test_the_pairwise_loss_weighs_pairs_by_what_an_exchange_would_change():
    scores = torch.tensor([[0.5, 0.9, 0.1, 0.7]], requires_grad=True)
    negatives = torch.tensor([[False, True, True, False]])  # the last one does not count
    loss = LambdaLoss(Scale(score_factor=2.0))(ScoredBatch(scores, torch.tensor([0]), negatives))
    # The positive has rank 2, between its two negatives.
    gains = [1 / math.log2(1 + rank) for rank in (1, 2, 3)]
    above = (gains[0] - gains[1]) * math.log1p(math.exp(2 * (0.9 - 0.5)))
    below = (gains[1] - gains[2]) * math.log1p(math.exp(2 * (0.1 - 0.5)))
    assert loss.item() == pytest.approx(above + below, rel=1e-5)
    loss.backward()
    assert scores.grad is not None
    positive, first, second, other = scores.grad[0].tolist()
    assert positive < 0 < second < first
    assert other == 0


def test_the_pairwise_loss_is_finite_without_negatives():
    scores = torch.tensor([[0.5, 0.9]], requires_grad=True)
    batch = ScoredBatch(scores, torch.tensor([0]), torch.zeros(1, 2, dtype=torch.bool))
    loss = LambdaLoss(Scale())(batch)
    loss.backward()
    assert (loss.item(), scores.grad.tolist()) == (0, [[0, 0]])
