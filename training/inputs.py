"""Creates the encoders, the data, the step and the loss that a recipe describes."""

from dataclasses import replace
from pathlib import Path

from swiftlet.encoders.encoder import Role
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.index.documents.passages import PassageSplitter
from swiftlet.progress import Progress
from training.contrastive.batch_encoder import BatchEncoder
from training.contrastive.false_negatives import FalseNegatives
from training.contrastive.step import CandidateSource, ContrastiveStep
from training.data.training_data import TrainingData, read_training_data
from training.data.validation_set import FEWEST_QUERIES, ValidationSet, hold_out, validation_from
from training.errors import TrainingDataError
from training.model.dual_encoder import DualEncoder
from training.model.folders import recorded_space
from training.model.loading import truncating_tokenizer
from training.model.towers import Tower
from training.objective.contrastive import Loss
from training.objective.negatives.sampler import SamplerInputs
from training.recipes.registry import (
    ADDED_TO_LOSS,
    CHANGES,
    CHECKS_OF_PASSAGES,
    JOINS,
    LOSSES,
    NOTES,
    OfPair,
)
from training.recipes.settings import Recipe, TowerTable


def make_dual_encoder(recipe: Recipe) -> DualEncoder:
    """The untrained dual encoder of `recipe`, on the CPU.

    :raises RetrievalError: When a model cannot be loaded, or the two models cannot be combined.
    """

    def load(settings: TowerTable, role: Role) -> Tower:
        tower = Tower.load(replace(settings.settings(), role=role))
        for change in CHANGES:
            change(tower, settings)
        if settings.gradient_checkpointing:
            tower.set_gradient_checkpointing(True)
        return tower

    table = recipe.dual_encoder
    of_queries = load(recipe.query_encoder, "query")
    of_documents = of_queries if table.is_one else load(recipe.document_encoder, "passage")
    for join in JOINS:
        join(table, of_queries, of_documents)
    return DualEncoder(
        of_queries,
        of_documents,
        maps_queries=recipe.method.maps_queries(recipe),
        **table.model_dump(exclude={*OfPair.model_fields}),
    )


def load_data(
    recipe: Recipe, document_tower: Tower, directory: Path, progress: Progress
) -> tuple[TrainingData, ValidationSet]:
    """The training data and the validation set of a recipe; passages are stored below `directory`.

    :raises CollectionError: When a file is bad, or names a query or document that does not exist.
    :raises TrainingDataError: When there are too few pairs or queries.
    :raises InvalidArgumentError: When the settings of passages are invalid for this tower.
    """
    whole = document_tower.encoder.tokenizer
    tokenizer = Tokenizer(truncating_tokenizer(whole, document_tower.max_tokens))
    settings, validation = recipe.passages, recipe.validation
    for check in CHECKS_OF_PASSAGES:
        check(document_tower.vectors, settings)
    splitter = PassageSplitter(
        tokenizer, settings.tokens, settings.overlap_tokens, settings.truncate
    )
    data = read_training_data(
        recipe.data,
        directory,
        splitter,
        positive=settings.positive,
        progress=progress,
    )
    if not validation.data:
        return hold_out(data, validation.queries, recipe.seed, max_passages=validation.max_passages)
    held_out = validation_from(
        validation.data,
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
            "needed"
        )
    return data, held_out


def notes_of(data: TrainingData, recipe: Recipe) -> tuple[str, ...]:
    """Notes on the data, and on encoders and batches that hardly suit them."""
    notes, pairs, batch_size = list(data.notes), len(data.pairs), recipe.optimiser.batch_size
    if pairs < batch_size:
        notes.append(
            f"optimiser.batch_size is {batch_size}, but there are {pairs} pairs: a batch has them "
            "all"
        )
    models = recipe.query_encoder.model, recipe.document_encoder.model
    spaces = {recorded_space(model) for model in models} - {None}
    is_mapped = recipe.method.maps_queries(recipe) or recipe.dual_encoder.projection != "none"
    if len(spaces) > 1 and not is_mapped:
        notes.append(
            f"{models[0]} is of another embedding space than {models[1]}, so they first have to be "
            "aligned: take one that was distilled from it, or set alignment.start to 'ridge'"
        )
    return (*notes, *(note for notes_of in NOTES for note in notes_of(recipe)))


def make_step(
    recipe: Recipe,
    data: TrainingData,
    encoder: BatchEncoder,
    loss: Loss,
    false_negatives: FalseNegatives | None,
    stage: int = 0,
) -> ContrastiveStep:
    """The step of a stage, with its sampler of negatives.

    :raises InvalidArgumentError: When the settings contradict the data.
    """
    towers, negatives = encoder.dual_encoder, recipe.negatives
    inputs = SamplerInputs(
        known=data.known,
        queries=data.queries,
        passages=data.passages,
        pairs=data.pairs,
        given_negatives=data.given_negatives,
        encode_queries=lambda numbers: encoder.queries([data.queries[each] for each in numbers]),
        encode_passages=lambda rows: encoder.passages(data.passages, rows),
        vectors=towers.document_tower.vectors,
        width=towers.document_width,
        scale=recipe.loss.scale,
        device=encoder.accelerator.device,
        seed=(recipe.seed + stage,),
    )
    source = CandidateSource(
        inputs,
        negatives.make(inputs),
        shared=negatives.shared,
        false_negatives=false_negatives,
        re_encodes=negatives.gradient == "re-encoded",
    )
    return ContrastiveStep(encoder, source, loss)


def make_loss(recipe: Recipe, data: TrainingData, encoder: BatchEncoder) -> Loss:
    """The loss of a run, while the document model is untrained.

    :raises InvalidArgumentError: When a teacher is wanted that there cannot be.
    """
    loss: Loss = LOSSES[recipe.loss.kind](recipe.loss)
    for add in ADDED_TO_LOSS:
        loss = add(loss, recipe, data.passages, encoder)
    return loss
