"""The alignment in closed form finds a linear map."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from training.errors import TrainingStoppedError
from training.objective.ridge import RATES, RidgeFit, fit_map

WIDTH, WANTED = 8, 5


def fitted(count: int, noise: float) -> tuple[nn.Linear, torch.Tensor, RidgeFit]:
    """A map fitted to some noisy pairs, the true map, and how it was fitted."""
    torch.manual_seed(0)
    linear, matrix = nn.Linear(WIDTH, WANTED), torch.randn(WIDTH, WANTED)
    outputs = torch.randn(count + 500, WIDTH)
    wanted = outputs @ matrix + noise * torch.randn(count + 500, WANTED)
    pairs, held_out = ((outputs[part], wanted[part]) for part in (slice(count), slice(count, None)))
    return linear, matrix, fit_map(linear, pairs, held_out)


def test_a_known_map_is_found():
    linear, matrix, fit = fitted(400, 0.0)
    assert (fit.rate, fit.is_small) == (RATES[0], False)
    assert fit.cosine > 0.9999 > 0.9 > fit.cosine_before
    torch.testing.assert_close(linear.weight, matrix.T, atol=0.01, rtol=0.01)


def test_held_out_pairs_choose_a_greater_rate_for_fewer_and_noisier_texts():
    rates = [fitted(count, noise)[2].rate for count, noise in ((400, 0.1), (40, 2.0), (6, 2.0))]
    assert rates == sorted(rates)
    assert rates[0] < rates[-1]
    assert fitted(6, 2.0)[2].is_small


def test_the_rate_is_the_best_one_on_the_held_out_pairs():
    torch.manual_seed(1)
    outputs, matrix = torch.randn(60, WIDTH), torch.randn(WIDTH, WANTED)
    wanted = outputs @ matrix + torch.randn(60, WANTED)
    found, kept = (outputs[:20], wanted[:20]), (outputs[20:], wanted[20:])
    linear = nn.Linear(WIDTH, WANTED)
    fit = fit_map(linear, found, kept)
    cosine = functional.cosine_similarity(linear(kept[0]), kept[1]).mean()
    assert fit.cosine == pytest.approx(cosine.item(), abs=1e-5)
    inputs = torch.cat([found[0], torch.ones(20, 1)], dim=1)
    for rate in RATES:
        penalty = rate * (inputs.T @ inputs).diagonal().mean() * torch.eye(WIDTH + 1)
        solution = torch.linalg.solve(inputs.T @ inputs + penalty, inputs.T @ found[1])
        other = kept[0] @ solution[:-1] + solution[-1]
        assert fit.cosine >= functional.cosine_similarity(other, kept[1]).mean() - 1e-5


def test_a_map_that_is_kept_is_hardly_changed_by_a_few_noisy_texts():
    def change(keeps: bool) -> float:
        torch.manual_seed(2)
        linear = nn.Linear(WIDTH, WIDTH)
        nn.init.eye_(linear.weight)
        nn.init.zeros_(linear.bias)
        outputs = torch.randn(504, WIDTH)
        wanted = outputs + 0.5 * torch.randn_like(outputs)
        return fit_map(
            linear, (outputs[:4], wanted[:4]), (outputs[4:], wanted[4:]), keeps=keeps
        ).cosine

    assert change(True) > change(False) + 0.1


def test_outputs_that_are_not_finite_are_refused():
    outputs, wanted = torch.randn(30, WIDTH), torch.randn(30, WANTED)
    wanted[3, 1] = torch.nan
    linear = nn.Linear(WIDTH, WANTED)
    with pytest.raises(TrainingStoppedError, match=r"^1 of 20 texts have an output that is not "):
        fit_map(linear, (outputs[:20], wanted[:20]), (outputs[20:], wanted[20:]))
