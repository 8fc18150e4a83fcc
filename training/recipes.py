"""The recipes: one plain function each, from the stages that it consists of."""

from collections.abc import Callable, Mapping

from training.dual_encoder import PARTS, Part
from training.recipe import Recipe
from training.run import TrainingRun
from training.stage import Stage

ALL: frozenset[Part] = frozenset(PARTS)


def daft(run: TrainingRun) -> None:
    """Algorithm 1 of 001: align the query encoder, then fine-tune both."""
    recipe = run.context.recipe
    alignment = recipe.alignment
    learns: set[Part] = {"query_encoder"}
    if alignment.train_projection:
        learns.add("projection")
    rates = _learning_rates(recipe, alignment.learning_rate)
    run.train(
        Stage(
            name="alignment",
            epochs=alignment.max_epochs,
            trains=lambda _step: frozenset(learns),
            learning_rates={part: rates[part] for part in PARTS if part in learns},
            stopping=alignment.stopping(run.context.dual_encoder.dim),
        )
    )
    _fine_tune(run, "fine-tuning", lambda _step: ALL)


def contrastive(run: TrainingRun) -> None:
    """Fine-tune both towers from the start, which collapses heterogeneous ones (section 3.2)."""
    _fine_tune(run, "fine-tuning", lambda _step: ALL)


def alternating(run: TrainingRun) -> None:
    """One tower a batch, in turn, the query encoder first (section 4); the projection always."""
    turns: tuple[frozenset[Part], ...] = (
        frozenset({"query_encoder", "projection"}),
        frozenset({"document_encoder", "projection"}),
    )
    _fine_tune(run, "alternating", lambda step: turns[step % 2])


RECIPES: Mapping[str, Callable[[TrainingRun], None]] = {
    "daft": daft,
    "contrastive": contrastive,
    "alternating": alternating,
}


def _fine_tune(run: TrainingRun, name: str, trains: Callable[[int], frozenset[Part]]) -> None:
    run.train(
        Stage(
            name=name,
            epochs=run.context.recipe.fine_tuning.epochs,
            trains=trains,
            learning_rates=_learning_rates(run.context.recipe),
            chooses_best=True,
        )
    )


def _learning_rates(recipe: Recipe, override: float | None = None) -> dict[Part, float]:
    settings = recipe.optimiser
    rate = override or settings.learning_rate
    return {
        "query_encoder": rate,
        "document_encoder": settings.document_learning_rate or rate,
        "projection": settings.projection_learning_rate or rate,
    }
