"""AdamW with a learning rate per parameter group, and a learning rate schedule."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import torch
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer
from pydantic import Field
from torch import nn
from transformers import get_scheduler

from training.model.dual_encoder import Part
from training.tables import Count, FloatingPoint, Positive, Table

ParameterGroup = tuple[Sequence[nn.Parameter], float]
"""Parameters and their learning rate."""

_NOT_DECAYED = 1  # biases and the weights of norms have one dimension


class Optimiser(Table):
    """[optimiser]: AdamW and its learning rate schedule; each stage starts both again."""

    learning_rate: Positive = 1e-5
    document_learning_rate: Positive | None = None
    projection_learning_rate: Positive | None = None
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    warmup_steps: Annotated[int, Field(ge=0)] = 1000
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    batch_size: Annotated[int, Field(ge=2)] = 48
    micro_batch_size: Count | None = None
    max_gradient_norm: Positive | None = 1.0
    precision: FloatingPoint = "fp32"

    @property
    def texts_at_once(self) -> int:
        """The texts that a tower encodes at once; by default a positive and a negative a query."""
        return self.micro_batch_size or 2 * self.batch_size

    def rates(self, override: float | None = None) -> dict[Part, float]:
        """The learning rate of each part of a dual encoder; `override` replaces `learning_rate`."""
        rate = override or self.learning_rate
        return {
            "query_encoder": rate,
            "document_encoder": self.document_learning_rate or rate,
            "projection": self.projection_learning_rate or rate,
        }


class Optimisation:
    """The optimiser of one stage. Parameters without a gradient are not changed."""

    def __init__(
        self,
        parts: Sequence[ParameterGroup],
        settings: Optimiser,
        num_steps: int,
        accelerator: Accelerator,
    ) -> None:
        """Train each parameter group at its rate over `num_steps` steps.

        :param settings: All settings except the learning rates.
        """
        groups: list[dict[str, Any]] = []
        for parameters, learning_rate in parts:
            groups += _groups(parameters, learning_rate, settings.weight_decay)
        self._parameters = [parameter for group in groups for parameter in group["params"]]
        self._max_norm = settings.max_gradient_norm
        self._accelerator = accelerator
        # Not registered with the accelerator, which would unscale gradients once per stage.
        self._optimiser = AcceleratedOptimizer(
            # With a scaler, a fused optimiser would skip steps without reporting it.
            torch.optim.AdamW(groups, fused=accelerator.scaler is None),
            scaler=accelerator.scaler,
        )
        # With a longer warm-up, a short stage would hardly reach the learning rate.
        warmup_steps = min(settings.warmup_steps, num_steps // 10)
        self._schedule = get_scheduler(
            "constant_with_warmup" if settings.schedule == "constant" else settings.schedule,
            self._optimiser.optimizer,
            num_warmup_steps=warmup_steps,
            num_training_steps=num_steps,
        )

    @property
    def learning_rate(self) -> float:
        """The largest current learning rate."""
        return float(max(group["lr"] for group in self._optimiser.param_groups))

    def step(self) -> float:
        """Clip the gradient, and update the parameters.

        :returns: The norm of the gradient before clipping.
        """
        self._accelerator.unscale_gradients(self._optimiser)
        norm = nn.utils.clip_grad_norm_(self._parameters, self._max_norm or float("inf"))
        self._optimiser.step()
        self._optimiser.zero_grad()
        if not self._optimiser.step_was_skipped:
            self._schedule.step()
        return float(norm)

    def state(self) -> dict[str, object]:
        """The state for `restore`."""
        scaler = self._accelerator.scaler
        return {
            "optimiser": self._optimiser.state_dict(),
            "schedule": self._schedule.state_dict(),
            "scaler": None if scaler is None else scaler.state_dict(),
        }

    def restore(self, state: Mapping[str, dict[str, object]]) -> None:
        """Continue from a state. The learning rates may have been changed since."""
        rates = self._schedule.base_lrs
        self._optimiser.load_state_dict(state["optimiser"])
        self._schedule.load_state_dict(state["schedule"])
        groups, before = self._optimiser.param_groups, self._schedule.base_lrs
        for group, rate, earlier in zip(groups, rates, before, strict=True):
            group["initial_lr"] = rate
            group["lr"] *= rate / earlier
        self._schedule.base_lrs = rates
        if self._accelerator.scaler is not None:
            self._accelerator.scaler.load_state_dict(state["scaler"])


def _groups(
    parameters: Sequence[nn.Parameter], learning_rate: float, weight_decay: float
) -> list[dict[str, Any]]:
    decayed = [p for p in parameters if p.ndim > _NOT_DECAYED]
    others = [p for p in parameters if p.ndim <= _NOT_DECAYED]
    groups = [
        {"params": decayed, "lr": learning_rate, "weight_decay": weight_decay},
        {"params": others, "lr": learning_rate, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
