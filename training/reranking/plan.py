"""The size of the training of a cross-encoder, before it starts."""

from training.loop.devices import make_accelerator
from training.loop.log import TrainingProgress
from training.loop.stage import StageLength
from training.model.cross_encoder import CrossEncoder
from training.reranking.groups import find_groups
from training.reranking.settings import RerankerRecipe


def plan_of(recipe: RerankerRecipe, progress: TrainingProgress) -> list[tuple[str, str]]:
    """Load the model and find the candidates of `recipe`: names and values of the plan's table.

    :raises RetrievalError: When the recipe cannot be run.
    """
    make_accelerator(recipe.optimiser.precision, recipe.optimiser.batch_size)
    model = CrossEncoder.load(recipe.cross_encoder.settings())
    groups, held_out = find_groups(recipe, progress)
    length = StageLength(len(groups), recipe.optimiser.batch_size, recipe.epochs)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return [
        ("queries to train on", f"{len(groups):,}"),
        ("queries held out", f"{len(held_out):,}"),
        ("cross-encoder", f"{parameters:,} parameters"),
        ("tokens of a pair", f"at most {model.max_tokens:,}"),
        ("pairs of a step", f"at most {length.batch_size * (1 + recipe.candidates.negatives):,}"),
        ("pairs of an evaluation", f"at most {len(held_out) * recipe.candidates.reranked:,}"),
        ("steps per epoch", f"{length.steps_per_epoch:,}"),
        ("steps", f"at most {length.num_steps:,}"),
    ]
