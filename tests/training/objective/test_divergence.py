"""The KL estimate converges to the closed form, and is always finite."""

import math

import pytest
import torch

from training.objective.divergence import Alignment, AlignmentStopping, kl_estimate


def gaussian_divergence(shift: float, scale: float, dim: int) -> float:
    """KL(N(0, I) ‖ N(shift, scale² I)) in `dim` dimensions."""
    one = math.log(scale) + (1 + shift**2) / (2 * scale**2) - 0.5
    return dim * one


@pytest.mark.parametrize("dim", [1, 8])
@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (0.5, 1.0), (0.0, 2.0), (0.3, 1.5)])
def test_the_estimate_agrees_with_the_closed_form_for_gaussians(dim, shift, scale):
    generator = torch.Generator().manual_seed(dim)
    sample = torch.randn(4000, dim, generator=generator)
    other = torch.randn(4000, dim, generator=generator) * scale + shift
    expected = gaussian_divergence(shift, scale, dim)
    # The estimator's bias at 4,000 points grows with the dimension.
    assert kl_estimate(sample, other) == pytest.approx(expected, abs=0.1 + 0.03 * dim * expected)


def test_the_estimate_is_the_formula_on_a_case_done_by_hand():
    sample = torch.tensor([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]])
    other = torch.tensor([[0.0, 2.0], [3.0, 1.0]])
    r = [1.0, 1.0, 2.0]
    s = [2.0, math.sqrt(5), 1.0]
    terms = sum(math.log(a / b) for a, b in zip(r, s, strict=True))
    assert kl_estimate(sample, other) == pytest.approx(-2 / 3 * terms + math.log(2 / 2), rel=1e-5)


def test_blocks_of_points_make_no_difference():
    generator = torch.Generator().manual_seed(1)
    sample = torch.randn(1500, 4, generator=generator)
    whole = torch.cdist(sample, sample) + torch.diag(torch.full((1500,), torch.inf))
    other = torch.randn(700, 4, generator=generator)
    expected = -4 * (
        whole.min(1).values.log() - torch.cdist(sample, other).min(1).values.log()
    ).mean().item() + math.log(700 / 1499)
    assert kl_estimate(sample, other) == pytest.approx(expected, rel=1e-4)


def test_duplicates_and_collapse_give_a_finite_estimate():
    point = torch.nn.functional.normalize(torch.ones(50, 16), dim=1)
    spread = torch.nn.functional.normalize(torch.randn(50, 16), dim=1)
    twice = spread[[0, 0, *range(48)]]
    for sample, other in ((point, point), (point, spread), (spread, point), (twice, twice)):
        assert math.isfinite(kl_estimate(sample, other))
    assert kl_estimate(point, point) == pytest.approx(math.log(50 / 49))
    assert kl_estimate(spread, point) > kl_estimate(spread, twice)


@pytest.mark.parametrize(
    ("settings", "delta"),
    [
        (Alignment(threshold=250.0), 250.0),
        (Alignment(threshold_per_dimension=250 / 512), 62.5),
        (Alignment(threshold=3.0, threshold_per_dimension=1.0), 3.0),
        (Alignment(), -math.inf),
    ],
)
def test_alignment_stops_below_a_threshold_absolute_or_per_dimension(settings, delta):
    stopping = AlignmentStopping(settings, 128)
    assert stopping.delta == pytest.approx(delta)
    assert stopping.reason_to_stop(0.1, max(delta, -1e9) + 0.5, 0.5) is None
    reason = stopping.reason_to_stop(0.2, delta - 1, 0.6)
    below = f"the KL estimate {delta - 1:.1f} is below δ = {delta:.1f}"
    assert reason == (below if math.isfinite(delta) else None)


def test_alignment_stops_at_a_plateau_of_retrieval_whatever_the_estimate_does():
    stopping = AlignmentStopping(Alignment(patience=2, least_gain=0.01), 8)
    # Small gains add up: 0.512 is one of 0.012 on 0.5.
    values = [(0.0, 0.1), (1.0, 0.5), (2.0, 0.506), (2.5, 0.512), (4.0, 0.52), (4.5, 0.521)]
    reasons = [stopping.reason_to_stop(epoch, -10 * epoch, ndcg) for epoch, ndcg in values]
    assert reasons[:5] == [None] * 5
    assert reasons[5] == "nDCG@10 has improved by less than 0.01 on 0.512 for 2 epochs"


def test_alignment_stops_at_a_plateau_of_the_estimate_per_dimension():
    stopping = AlignmentStopping(Alignment(patience=3, plateau_of="kl", least_gain=0.005), 10)
    values = [9.0, 8.0, 8.5, 7.0, 7.0, 7.1, 6.96]
    reasons = [
        stopping.reason_to_stop(epoch, value, epoch / 10) for epoch, value in enumerate(values)
    ]
    assert reasons[:6] == [None] * 6
    assert reasons[6] is not None
    assert "KL estimate per dimension has improved by less than 0.005 on 0.700 for 3" in reasons[6]


def test_patience_counts_epochs_and_not_evaluations():
    stopping = AlignmentStopping(Alignment(patience=1), 8)
    reasons = [stopping.reason_to_stop(place / 4, 9.0, 0.5) for place in range(5)]
    assert [reason is None for reason in reasons] == [True] * 4 + [False]
