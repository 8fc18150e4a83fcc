"""The protocol of methods, and plain contrastive training."""

# Methods without an alignment ignore the size of embeddings.

from collections.abc import Callable
from typing import Annotated, Any, Protocol

from pydantic import Field
from typing_extensions import override

from training.contrastive.stage import ContrastiveStage
from training.loop.optimisation import Optimiser
from training.model.dual_encoder import PARTS, Part
from training.tables import Count, Positive, Table

ALL: frozenset[Part] = frozenset(PARTS)


class FineTuning(Table):
    """[fine_tuning]: the second stage, both towers (section 5.3.1).

    It has `epochs`, but at most `max_steps`. `average` is the share of the initial weights in the
    final ones.
    """

    epochs: Positive = 10
    max_steps: Count | None = None
    average: Annotated[float, Field(ge=0, lt=1)] = 0.0


class Schedule(Table):
    """The tables of a recipe that every method has."""

    optimiser: Optimiser = Optimiser()
    fine_tuning: FineTuning = FineTuning()

    def fine_tuning_stage(
        self, name: str, trains: Callable[[int], frozenset[Part]]
    ) -> ContrastiveStage:
        """The stage of [fine_tuning].

        :param trains: The parts that are trained in a step.
        """
        return ContrastiveStage(
            name=name,
            epochs=self.fine_tuning.epochs,
            trains=trains,
            learning_rates=self.optimiser.rates(),
            chooses_best=True,
            most_steps=self.fine_tuning.max_steps,
        )


class Method(Protocol):
    """A way to train a pair, as a list of stages."""

    keeps_documents: bool = False
    """Whether the embeddings of documents stay as they are, unless there is a projection."""

    def maps_queries(self, recipe: Any) -> bool:  # noqa: ARG002 - by default it does not
        """Whether an alignment in closed form comes before the stages."""
        return False

    def stages(self, recipe: Any, dim: int) -> list[ContrastiveStage]:
        """The stages for embeddings of this size; a recipe has the settings of all methods."""
        ...


class Contrastive(Method):
    """Fine-tune both encoders from the start; heterogeneous ones collapse (001, section 3.2)."""

    @override
    def stages(self, recipe: Schedule, dim: int) -> list[ContrastiveStage]:
        return [recipe.fine_tuning_stage("fine-tuning", lambda _step: ALL)]


class Alternating(Method):
    """Train one encoder per batch, the query encoder first (001, section 4).

    The projection is trained in every batch.
    """

    @override
    def stages(self, recipe: Schedule, dim: int) -> list[ContrastiveStage]:
        turns: tuple[frozenset[Part], ...] = (
            frozenset({"query_encoder", "projection"}),
            frozenset({"document_encoder", "projection"}),
        )
        return [recipe.fine_tuning_stage("alternating", lambda step: turns[step % 2])]
