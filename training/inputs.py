"""From a recipe to the things it names: encoders and data."""

from pathlib import Path

from indexing.progress import Progress
from retrieval.passages import PassageSplitter
from retrieval.tokenizer import Tokenizer
from training.data import TrainingData, read_training_data
from training.dual_encoder import DualEncoder
from training.encoders import Tower
from training.errors import TrainingDataError
from training.loading import truncating_tokenizer
from training.recipe import FEWEST_QUERIES, Recipe
from training.validation import ValidationSet, hold_out, validation_from


def make_dual_encoder(recipe: Recipe) -> DualEncoder:
    """The untrained pair that `recipe` describes, on the CPU.

    :raises RetrievalError: When a model cannot be loaded, or the two do not go together.
    """
    towers = []
    for settings in (recipe.query_encoder, recipe.document_encoder):
        tower = Tower.load(settings.settings())
        if settings.gradient_checkpointing:
            tower.set_gradient_checkpointing(True)
        towers.append(tower)
    return DualEncoder(
        *towers,
        projection=recipe.dual_encoder.projection,
        dim=recipe.dual_encoder.dim,
        start=recipe.dual_encoder.start,
    )


def load_data(
    recipe: Recipe, document_tower: Tower, directory: Path, progress: Progress
) -> tuple[TrainingData, ValidationSet]:
    """What a recipe trains and validates on; passages are stored below `directory`.

    :raises CollectionError: When a file is bad, or names what is not there.
    :raises TrainingDataError: When there is too little to train on.
    :raises InvalidArgumentError: When passages cannot be cut so.
    """
    tokenizer = Tokenizer(truncating_tokenizer(document_tower.encoder, document_tower.max_tokens))
    settings, validation = recipe.passages, recipe.validation
    splitter = PassageSplitter(
        tokenizer, settings.tokens, settings.overlap_tokens, settings.truncate
    )
    data = read_training_data(
        [table.data_source() for table in recipe.data],
        directory,
        splitter,
        positive=settings.positive,
        progress=progress,
    )
    if not validation.data:
        return hold_out(data, validation.queries, recipe.seed, max_passages=validation.max_passages)
    held_out = validation_from(
        [table.data_source() for table in validation.data],
        directory,
        splitter,
        num_queries=validation.queries,
        max_passages=validation.max_passages,
        seed=recipe.seed,
        progress=progress,
    )
    if len(held_out.queries) < FEWEST_QUERIES:
        raise TrainingDataError(
            f"there are {len(held_out.queries)} validation queries: at least {FEWEST_QUERIES} are "
            "needed to measure with"
        )
    return data, held_out
