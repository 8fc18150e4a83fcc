"""The student: some layers of the teacher, or another checkpoint with a projection."""

from pathlib import Path

import torch
from torch import nn

from swiftlet.retrieval.errors import InvalidArgumentError
from training.distillation.settings import Distillation
from training.model.dual_encoder import Features
from training.model.towers import Tower

_RIDGE = 1e-3


class Student(nn.Module):
    """A query encoder with outputs (n, width) of the teacher's width."""

    def __init__(self, tower: Tower, projection: nn.Linear | None = None) -> None:
        super().__init__()
        self.tower = tower
        self.projection = projection

    @classmethod
    def make(cls, settings: Distillation, width: int) -> "Student":
        """The untrained student for a teacher of this `width`, on the CPU.

        :raises InvalidArgumentError: When there is no such model or layer, or the widths differ
            without a projection.
        :raises ModelError: When the model cannot be loaded, needs its own code, or cannot be
            cut.
        """
        tower = Tower.load(settings.student_tower())
        if settings.projects:
            return cls(tower, nn.Linear(tower.width, width))
        if tower.width != width:
            raise InvalidArgumentError(
                f"the student is {tower.width} wide and the teacher {width}: without a projection "
                "they must be equal"
            )
        return cls(tower)

    def forward(self, features: Features) -> torch.Tensor:
        """Outputs (n, width) of tokenised texts, not normalised."""
        outputs: torch.Tensor = self.tower(dict(features))
        return outputs if self.projection is None else self.projection(outputs)

    def fit_projection(self, outputs: torch.Tensor, wanted: torch.Tensor) -> None:
        """Initialise the projection such that it maps `outputs` (n, own width) close to `wanted`.

        This is ridge regression, and saves the steps that a random projection would need.

        :param wanted: The teacher's outputs for the same texts, (n, width).
        """
        if self.projection is None:
            return
        inputs = torch.cat([outputs, torch.ones(len(outputs), 1)], dim=1).double()
        gram = inputs.T @ inputs
        gram += _RIDGE * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
        solution = torch.linalg.solve(gram, inputs.T @ wanted.double()).float()
        with torch.no_grad():
            self.projection.weight.copy_(solution[:-1].T)
            self.projection.bias.copy_(solution[-1])

    def save(self, directory: Path) -> None:
        """Write the whole encoder as a Sentence Transformers directory."""
        self.tower.save(directory, self.projection)
