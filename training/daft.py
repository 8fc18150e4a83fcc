"""DAFT, distribution-aligned fine-tuning (001, algorithm 1), from its first line to its last.

Two encoders that were not pre-trained together collapse if both are trained at once (section 3.2).
So the query encoder is first aligned with the frozen document encoder, and then both are trained.
`swiftlet train` runs these two stages: each step of them is `ContrastiveStep`, and each evaluation
between the steps asks the rule `AlignmentStopping` whether the first stage is over. Unlike in the
paper, a map in closed form (`training.contrastive.closed_form`) can come before both.
"""

from typing_extensions import override

from training.contrastive.stage import ContrastiveStage
from training.methods import ALL, Method, Schedule
from training.model.dual_encoder import Part
from training.objective.divergence import Alignment, AlignmentStopping


class DaftSchedule(Schedule):
    """The tables of a recipe that DAFT has."""

    alignment: Alignment = Alignment()


class Daft(Method):
    """Align the query encoder, then fine-tune both encoders."""

    @override
    def maps_queries(self, recipe: DaftSchedule) -> bool:
        return recipe.alignment.start == "ridge"

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
            stopping=AlignmentStopping(settings, dim),
            most_steps=settings.max_steps,
        )

    def _fine_tuning(self, recipe: DaftSchedule) -> ContrastiveStage:
        """Train both encoders and the projection; the best checkpoint by nDCG@10 is the result.

        The evaluation before the first step counts, too: the result is then the aligned pair.
        """
        return recipe.fine_tuning_stage("fine-tuning", lambda _step: ALL)
