"""DAFT, distribution-aligned fine-tuning (001, algorithm 1), from its first line to its last.

Two encoders that were not pre-trained together collapse if both are trained at once (section 3.2).
So the query encoder is first aligned with the frozen document encoder, and then both are trained.
`swiftlet train` runs these two stages: each step of them is `ContrastiveStep`, and each evaluation
between the steps asks the rule `AlignmentStopping` whether the first stage is over.
"""

from typing import Annotated

from pydantic import Field, StrictFloat
from typing_extensions import override

from training.loop.contrastive_stage import ContrastiveStage
from training.methods import ALL, Method, Schedule
from training.model.dual_encoder import Part
from training.objective.divergence import AlignmentStopping, PlateauFigure
from training.tables import Positive, Table


class Alignment(Table):
    """[alignment]: the first stage of DAFT; the document language model is frozen (section 4).

    It ends below a threshold of the KL estimate, or when `plateau_of` has improved by less than
    `least_gain` for `patience` epochs.
    """

    max_epochs: Positive = 20
    train_projection: bool = True
    threshold: StrictFloat | None = None
    threshold_per_dimension: float | None = None
    patience: Positive | None = 1
    plateau_of: PlateauFigure = "ndcg@10"
    least_gain: Annotated[float, Field(ge=0)] = 0.005
    learning_rate: Positive | None = None

    def stopping(self, dim: int) -> AlignmentStopping:
        """The stopping rule for embeddings of this size."""
        per_dimension = self.threshold_per_dimension if self.threshold is None else None
        return AlignmentStopping(
            dim=dim,
            threshold=self.threshold,
            threshold_per_dimension=per_dimension,
            patience=self.patience,
            plateau_of=self.plateau_of,
            least_gain=self.least_gain,
        )


class DaftSchedule(Schedule):
    """The tables of a recipe that DAFT has."""

    alignment: Alignment = Alignment()


class Daft(Method):
    """Align the query encoder, then fine-tune both encoders."""

    @override
    def stages(self, recipe: DaftSchedule, dim: int) -> list[ContrastiveStage]:
        return [self._alignment(recipe, dim), self._fine_tuning(recipe)]

    def _alignment(self, recipe: DaftSchedule, dim: int) -> ContrastiveStage:
        """Train the query encoder until its distribution is as the document encoder's.

        The loss is as in the second stage (eq. 5). Documents keep the outputs of their language
        model, which are computed once; the projection W, b belongs to both encoders.
        """
        settings = recipe.alignment
        trained: set[Part] = {"query_encoder"}
        if settings.train_projection:
            trained.add("projection")
        rates = recipe.optimiser.rates(settings.learning_rate)
        return ContrastiveStage(
            name="alignment",
            epochs=settings.max_epochs,
            trains=lambda _step: frozenset(trained),
            learning_rates={part: rate for part, rate in rates.items() if part in trained},
            stopping=settings.stopping(dim),
        )

    def _fine_tuning(self, recipe: DaftSchedule) -> ContrastiveStage:
        """Train both encoders and the projection; the best checkpoint by nDCG@10 is the result.

        The evaluation before the first step counts, too: the result is then the aligned pair.
        """
        return recipe.fine_tuning_stage("fine-tuning", lambda _step: ALL)
