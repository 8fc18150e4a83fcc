"""Each part has its learning rate, and an optimiser continues from its state."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch

from tests.runs import plain_accelerator, tower
from training.loop.optimisation import Optimisation, Optimiser
from training.model.dual_encoder import PARTS, DualEncoder, Part

Make = Callable[..., tuple[DualEncoder, Optimisation]]


@pytest.fixture(scope="module")
def make(checkpoints) -> Make:
    """Makes a dual encoder and its optimisation."""

    def make_both(
        rates: dict[Part, float] | None = None,
        num_steps: int = 20,
        scaler: torch.amp.GradScaler | None = None,
        **settings: Any,
    ) -> tuple[DualEncoder, Optimisation]:
        torch.manual_seed(3)
        dual_encoder = DualEncoder(tower(checkpoints["roberta"]), tower(checkpoints["bert"]))
        groups = dual_encoder.parameter_groups(rates or dict.fromkeys(PARTS, 1e-3))
        optimiser = Optimiser(**{"warmup_steps": 0, "weight_decay": 0.0} | settings)
        accelerator = plain_accelerator()
        accelerator.scaler = scaler
        return dual_encoder, Optimisation(groups, optimiser, num_steps, accelerator)

    return make_both


def give_gradient(dual_encoder: DualEncoder, seed: int = 0) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in dual_encoder.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


def weights(dual_encoder: DualEncoder) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in dual_encoder.state_dict().items()}


def rates(optimisation: Optimisation, dual_encoder: DualEncoder, count: int) -> list[float]:
    found = []
    for _ in range(count):
        found.append(optimisation.learning_rate)
        give_gradient(dual_encoder)
        optimisation.step()
    return found


def test_each_part_moves_at_its_own_rate_and_one_without_a_rate_not_at_all(make):
    dual_encoder, optimisation = make({"query_encoder": 1e-3, "projection": 1e-2})
    before = weights(dual_encoder)
    give_gradient(dual_encoder)
    optimisation.step()
    moved = {
        name: float((value - before[name]).abs().max())
        for name, value in dual_encoder.state_dict().items()
        if value.is_floating_point()
    }
    for name, distance in moved.items():
        expected = {"query_tower": 1e-3, "document_tower": 0}.get(name.partition(".")[0], 1e-2)
        # The first step of Adam is the rate itself.
        assert distance == pytest.approx(expected, rel=1e-2), name
    assert optimisation.learning_rate == pytest.approx(1e-2 * 19 / 20)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("linear", [0, 0.5, 1, 1 - 1 / 18, 1 - 2 / 18]),
        ("constant", [0, 0.5, 1, 1, 1]),
        ("cosine", [0, 0.5, 1, 0.9924, 0.9698]),
    ],
)
def test_the_rate_warms_up_and_then_follows_the_schedule(schedule, expected, make):
    dual_encoder, optimisation = make(schedule=schedule, warmup_steps=2)
    found = rates(optimisation, dual_encoder, 5)
    assert [rate / 1e-3 for rate in found] == pytest.approx(expected, abs=1e-4)


def test_a_warm_up_longer_than_the_stage_is_cut_to_a_tenth(make):
    dual_encoder, optimisation = make(num_steps=30, warmup_steps=1000)
    assert max(rates(optimisation, dual_encoder, 5)) == pytest.approx(1e-3)


def test_the_norm_is_that_before_clipping_and_clipping_bounds_it(make):
    dual_encoder, optimisation = make(max_gradient_norm=0.5)
    give_gradient(dual_encoder)
    squares = sum(float(p.grad.square().sum()) for p in dual_encoder.parameters())
    assert optimisation.step() == pytest.approx(squares**0.5, rel=1e-4)
    assert all(parameter.grad is None for parameter in dual_encoder.parameters())


def test_only_weights_of_more_than_one_dimension_decay(make):
    dual_encoder, optimisation = make(weight_decay=0.5)
    before = weights(dual_encoder)
    for parameter in dual_encoder.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimisation.step()
    for name, value in dual_encoder.state_dict().items():
        factor = 1 - 1e-3 * 0.5 if value.ndim > 1 and value.is_floating_point() else 1
        torch.testing.assert_close(value, before[name] * factor, msg=name)


def test_parameters_without_gradient_stay_unchanged(make):
    dual_encoder, optimisation = make(weight_decay=0.5)
    before = weights(dual_encoder)
    give_gradient(dual_encoder)
    dual_encoder.train_only(frozenset({"document_encoder"}))
    optimisation.step()
    for name, value in dual_encoder.state_dict().items():
        is_same = torch.equal(value, before[name])
        assert is_same != (name.startswith("document_tower") and value.is_floating_point()), name


def test_an_optimiser_continues_from_its_state(make):
    settings: dict[str, Any] = {"warmup_steps": 2, "weight_decay": 0.1}
    dual_encoder, optimisation = make(**settings)
    for seed in range(4):
        give_gradient(dual_encoder, seed)
        optimisation.step()
    state, so_far = deepcopy(optimisation.state()), weights(dual_encoder)
    again, resumed = make(**settings)
    again.load_state_dict(so_far)
    resumed.restore(state)
    for seed in range(4, 8):
        for model, steps in ((dual_encoder, optimisation), (again, resumed)):
            give_gradient(model, seed)
            steps.step()
        assert resumed.learning_rate == optimisation.learning_rate
    for name, value in again.state_dict().items():
        assert torch.equal(value, dual_encoder.state_dict()[name]), name


def test_an_optimiser_continues_with_changed_learning_rates(make):
    dual_encoder, optimisation = make({"query_encoder": 1e-3, "projection": 1e-2})
    before = rates(optimisation, dual_encoder, 4)
    again, resumed = make({"query_encoder": 1e-4, "projection": 1e-3})
    resumed.restore(deepcopy(optimisation.state()))
    found = rates(resumed, again, 4)
    assert found == pytest.approx([1e-3 * (20 - step) / 20 for step in range(4, 8)])
    assert before == pytest.approx([1e-2 * (20 - step) / 20 for step in range(4)])


def test_a_step_that_overflows_moves_neither_weights_nor_the_schedule(make):
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    dual_encoder, optimisation = make(scaler=scaler)
    before = weights(dual_encoder)
    for gradient in (torch.inf, 1.0):
        scaler.scale(torch.ones(()))  # it must have seen a loss
        for parameter in dual_encoder.parameters():
            parameter.grad = torch.full_like(parameter, gradient)
        optimisation.step()
        moved = any(
            not torch.equal(value, before[name])
            for name, value in dual_encoder.state_dict().items()
        )
        assert moved == (gradient == 1.0)
        assert (optimisation.learning_rate < 1e-3) == moved
