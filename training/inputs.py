"""Creates the encoders, the data and the sampler that a recipe describes."""

from dataclasses import replace
from pathlib import Path

import torch

from swiftlet.encoders.encoder import Role
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.documents.passages import PassageSplitter
from swiftlet.progress import Progress
from training.data.training_data import TrainingData, read_training_data
from training.data.validation_set import FEWEST_QUERIES, ValidationSet, hold_out, validation_from
from training.errors import TrainingDataError
from training.loop.batch_encoder import BatchEncoder
from training.model.dual_encoder import DualEncoder
from training.model.loading import truncating_tokenizer
from training.model.towers import Tower
from training.model.trained import recorded_space
from training.objective.negatives.bm25 import Bm25Sampler
from training.objective.negatives.cache import NegativeCache
from training.objective.negatives.dynamic import DynamicSampler
from training.objective.negatives.given import GivenSampler
from training.objective.negatives.in_batch import InBatchSampler
from training.objective.negatives.mined import MinedSampler
from training.objective.negatives.mixed import MixedSampler
from training.objective.negatives.sampler import NegativeSampler
from training.objective.negatives.uniform import UniformSampler
from training.recipes.settings import Recipe, SamplerName, TowerTable


def make_dual_encoder(recipe: Recipe) -> DualEncoder:
    """The untrained dual encoder of `recipe`, on the CPU.

    :raises RetrievalError: When a model cannot be loaded, or the two models cannot be combined.
    """

    def load(settings: TowerTable, role: Role) -> Tower:
        tower = Tower.load(replace(settings.settings(), role=role))
        if settings.gradient_checkpointing:
            tower.set_gradient_checkpointing(True)
        return tower

    of_queries = load(recipe.query_encoder, "query")
    is_one = recipe.dual_encoder.sharing == "all"
    of_documents = of_queries if is_one else load(recipe.document_encoder, "passage")
    return DualEncoder(of_queries, of_documents, **recipe.dual_encoder.model_dump())


def load_data(
    recipe: Recipe, document_tower: Tower, directory: Path, progress: Progress
) -> tuple[TrainingData, ValidationSet]:
    """The training data and the validation set of a recipe; passages are stored below `directory`.

    :raises CollectionError: When a file is bad, or names a query or document that does not exist.
    :raises TrainingDataError: When there are too few pairs or queries.
    :raises InvalidArgumentError: When the settings of passages are invalid for this tower.
    """
    tokenizer = Tokenizer(truncating_tokenizer(document_tower.encoder, document_tower.max_tokens))
    settings, validation = recipe.passages, recipe.validation
    if document_tower.vectors > settings.tokens and not settings.truncate:
        raise InvalidArgumentError(
            f"document_encoder.first_tokens is {document_tower.vectors}, but passages have at most "
            f"{settings.tokens} tokens: lower it or raise passages.tokens"
        )
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
    if recipe.dual_encoder.projection == "none" and len(spaces) > 1:
        notes.append(
            f"{models[0]} is of another embedding space than {models[1]}, so they first have to be "
            "aligned: take one that was distilled from it, or set dual_encoder.projection to "
            "'shared'"
        )
    if recipe.dual_encoder.sharing == "token_embeddings" and models[0] != models[1]:
        notes.append(
            f"the token embeddings of {models[0]} are replaced by the token embeddings of "
            f"{models[1]}: dual_encoder.sharing is 'token_embeddings'"
        )
    return tuple(notes)


def make_sampler(
    recipe: Recipe, data: TrainingData, encoder: BatchEncoder, stage: int = 0
) -> NegativeSampler:
    """The negative sampler of a stage. Several samplers are combined into one.

    :raises InvalidArgumentError: When the settings contradict each other or the data.
    """
    settings, loss, dual_encoder = recipe.negatives, recipe.loss, encoder.dual_encoder
    known, num_passages = data.known, data.passages.num_passages

    def make(name: SamplerName, place: int) -> NegativeSampler:
        own_seed = (recipe.seed + stage, place)  # samplers must draw different random numbers
        match name:
            case "in_batch":
                return InBatchSampler(known)
            case "uniform":
                return UniformSampler(
                    known, num_passages=num_passages, per_query=settings.per_query, seed=own_seed
                )
            case "bm25":
                return Bm25Sampler(
                    known,
                    query_texts=data.queries,
                    passages=data.passages,
                    per_query=settings.per_query,
                    depth=settings.depth,
                    seed=own_seed,
                )
            case "mined":
                return MinedSampler(
                    known,
                    encode_queries=lambda numbers: encoder.queries(
                        [data.queries[number] for number in numbers]
                    ),
                    num_passages=num_passages,
                    vectors=dual_encoder.document_tower.vectors,
                    per_query=settings.per_query,
                    depth=settings.depth,
                    refresh_every=settings.refresh_every,
                    seed=own_seed,
                )
            case "dynamic":
                return DynamicSampler(
                    known,
                    encode=lambda rows: encoder.passages(data.passages, rows),
                    num_passages=num_passages,
                    vectors=dual_encoder.document_tower.vectors,
                    per_query=settings.per_query,
                    seed=own_seed,
                )
            case "given":
                if data.given_negatives is None:
                    raise InvalidArgumentError(
                        "negatives.samplers has 'given', but the data have no triples"
                    )
                return GivenSampler(
                    known,
                    pairs=data.pairs,
                    given=data.given_negatives,
                    per_query=settings.per_query,
                    seed=own_seed,
                )
            case "cache":
                return NegativeCache(
                    known,
                    num_passages=num_passages,
                    width=dual_encoder.document_width,
                    per_query=settings.per_query,
                    fraction=settings.cache_fraction,
                    refresh_fraction=settings.refresh_fraction,
                    seed=own_seed,
                    score_factor=loss.score_factor,
                    temperature=loss.temperature,
                    takes_best=settings.gradient == "re-encoded",
                    device=encoder.accelerator.device,
                    dtype=getattr(torch, settings.cache_precision),
                )

    samplers = [make(name, place) for place, name in enumerate(settings.samplers)]
    return samplers[0] if len(samplers) == 1 else MixedSampler(samplers)
