"""The contrastive loss is that of eq. 5, row by row."""

import math

import pytest
import torch

from training.objective.contrastive import Scale, ScoredBatch, SoftmaxLoss, StandIns

LOSS = SoftmaxLoss(Scale())
MILD = SoftmaxLoss(Scale(score_factor=0.7))


def test_the_loss_of_a_row_is_minus_the_log_of_its_positives_share():
    scores = torch.tensor([[0.9, 0.1, 0.3]])
    negatives = torch.tensor([[False, True, True]])
    softer = SoftmaxLoss(Scale(score_factor=20.0, temperature=2.0))
    loss = softer(ScoredBatch(scores, torch.tensor([0]), negatives))
    weights = [math.exp(20 * score / 2) for score in (0.9, 0.1, 0.3)]
    assert loss.item() == pytest.approx(-math.log(weights[0] / sum(weights)), rel=1e-3)


def test_a_document_that_is_not_a_rows_negative_does_not_count_in_it():
    scores = torch.tensor([[0.9, 0.1, 0.99], [0.2, 0.8, 0.5]])
    negatives = torch.tensor([[False, True, False], [True, False, True]])
    loss = LOSS(ScoredBatch(scores, torch.tensor([0, 1]), negatives))
    rows = [
        LOSS(ScoredBatch(scores[:1, :2], torch.tensor([0]), negatives[:1, :2])),
        LOSS(ScoredBatch(scores[1:], torch.tensor([1]), negatives[1:])),
    ]
    assert loss.item() == pytest.approx((rows[0].item() + rows[1].item()) / 2)


def test_the_stand_ins_of_constants_have_their_gradient_on_average():
    """The mean over all possible draws is the gradient of the whole softmax, exactly."""
    generator = torch.Generator().manual_seed(1)
    query, documents = (
        torch.randn(1, 4, generator=generator),
        torch.randn(6, 4, generator=generator),
    )
    negatives = torch.tensor([[False, True, True, True, False, True]])
    tensors = (query.requires_grad_(), documents.requires_grad_())
    whole = MILD(ScoredBatch(query @ documents.T, torch.tensor([0]), negatives))
    expected = torch.autograd.grad(whole, tensors)
    first = 2
    fixed = torch.cat((query @ documents[:first].T, (query @ documents[first:].T).detach()), dim=1)
    shares = (0.7 * fixed[0, first:]).masked_fill(~negatives[0, first:], -torch.inf).softmax(0)
    means = [torch.zeros_like(tensor) for tensor in tensors]
    for place, share in enumerate(shares.tolist()):
        drawn = StandIns(first, query @ documents[first + place])
        loss = MILD(ScoredBatch(fixed, torch.tensor([0]), negatives, drawn))
        assert loss.item() == pytest.approx(whole.item())
        parts = torch.autograd.grad(loss, tensors, retain_graph=True)
        means = [mean + share * part for mean, part in zip(means, parts, strict=True)]
    for mean, gradient in zip(means, expected, strict=True):
        torch.testing.assert_close(mean, gradient)


def test_a_collapsed_model_has_the_loss_of_eq_7():
    scores = torch.ones(5, 65)
    negatives = torch.ones(5, 65, dtype=torch.bool)
    negatives[:, 0] = False
    batch = ScoredBatch(scores, torch.zeros(5, dtype=torch.long), negatives)
    loss = LOSS(batch)
    assert loss.item() == pytest.approx(math.log(65), abs=1e-5)
    assert loss.item() == pytest.approx(4.17, abs=0.005)
    assert LOSS.collapsed(batch) == pytest.approx(math.log(65), abs=1e-5)


def test_rows_with_different_numbers_of_negatives_have_their_own_bound():
    negatives = torch.tensor([[True, True, True, False], [True, False, False, False]])
    batch = ScoredBatch(torch.zeros(2, 4), torch.tensor([3, 3]), negatives)
    assert LOSS.collapsed(batch) == pytest.approx((math.log(4) + math.log(2)) / 2)


def test_a_query_without_negatives_has_no_loss_and_a_finite_gradient():
    scores = torch.tensor([[0.5, 0.2]], requires_grad=True)
    loss = LOSS(ScoredBatch(scores, torch.tensor([0]), torch.zeros(1, 2, dtype=torch.bool)))
    loss.backward()
    assert loss.item() == 0
    assert torch.isfinite(scores.grad).all()
