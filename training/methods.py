"""The methods that a recipe can name, each as a list of stages."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from training.loop.contrastive_stage import ContrastiveStage
from training.model.dual_encoder import PARTS, Part
from training.recipes.settings import Recipe

ALL: frozenset[Part] = frozenset(PARTS)


def daft(recipe: Recipe, dim: int) -> list[ContrastiveStage]:
    """Align the query encoder, then fine-tune both encoders (001, algorithm 1)."""
    alignment = recipe.alignment
    trained: set[Part] = {"query_encoder"}
    if alignment.train_projection:
        trained.add("projection")
    rates = _learning_rates(recipe, alignment.learning_rate)
    return [
        ContrastiveStage(
            name="alignment",
            epochs=alignment.max_epochs,
            trains=lambda _step: frozenset(trained),
            learning_rates={part: rates[part] for part in PARTS if part in trained},
            stopping=alignment.stopping(dim),
        ),
        _fine_tuning(recipe, "fine-tuning", lambda _step: ALL),
    ]


def contrastive(recipe: Recipe, dim: int) -> list[ContrastiveStage]:  # noqa: ARG001
    """Fine-tune both encoders from the start; heterogeneous ones collapse (001, section 3.2)."""
    return [_fine_tuning(recipe, "fine-tuning", lambda _step: ALL)]


def alternating(recipe: Recipe, dim: int) -> list[ContrastiveStage]:  # noqa: ARG001
    """Train one encoder per batch, the query encoder first (001, section 4).

    The projection is trained in every batch.
    """
    turns: tuple[frozenset[Part], ...] = (
        frozenset({"query_encoder", "projection"}),
        frozenset({"document_encoder", "projection"}),
    )
    return [_fine_tuning(recipe, "alternating", lambda step: turns[step % 2])]


def adore(recipe: Recipe, dim: int) -> list[ContrastiveStage]:  # noqa: ARG001
    """Train the query encoder alone; documents stay as they are (Zhan et al. 2021, section 4.2)."""
    trained: frozenset[Part] = frozenset({"query_encoder"})
    stage = _fine_tuning(recipe, "adore", lambda _step: trained)
    rates = {part: rate for part, rate in stage.learning_rates.items() if part in trained}
    return [replace(stage, learning_rates=rates)]


METHODS: Mapping[str, Callable[[Recipe, int], list[ContrastiveStage]]] = {
    "daft": daft,
    "contrastive": contrastive,
    "alternating": alternating,
    "adore": adore,
}


def _fine_tuning(
    recipe: Recipe, name: str, trains: Callable[[int], frozenset[Part]]
) -> ContrastiveStage:
    return ContrastiveStage(
        name=name,
        epochs=recipe.fine_tuning.epochs,
        trains=trains,
        learning_rates=_learning_rates(recipe),
        chooses_best=True,
        most_steps=recipe.fine_tuning.max_steps,
    )


def _learning_rates(recipe: Recipe, override: float | None = None) -> dict[Part, float]:
    settings = recipe.optimiser
    rate = override or settings.learning_rate
    return {
        "query_encoder": rate,
        "document_encoder": settings.document_learning_rate or rate,
        "projection": settings.projection_learning_rate or rate,
    }
