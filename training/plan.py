"""Estimates the size and the memory of a run before it starts."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swiftlet.progress import Progress
from training.inputs import load_data, make_dual_encoder, notes_of
from training.loop.devices import make_accelerator
from training.model.dual_encoder import DualEncoder
from training.model.lookup import is_lookup
from training.model.towers import Tower
from training.objective.negatives.cache import cache_sizes
from training.recipes.settings import Recipe, TowerTable

# AdamW in float32: the weight, its gradient and two moments.
_BYTES_PER_PARAMETER = 16


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of a run.

    Memory is estimated. `training_bytes` is for weights, gradients and AdamW's moments.
    `activation_bytes` is for the activations of both towers for one micro-batch of texts of the
    greatest length (Korthikanti et al. 2022, section 4.1; with gradient checkpointing, the inputs
    of all layers and the activations of one). After each step, `num_refreshed` passages are encoded
    for the negative cache.
    """

    num_pairs: int
    num_queries: int
    num_passages: int
    num_validation_queries: int
    num_searched_passages: int
    query_parameters: int
    document_parameters: int
    dim: int
    vectors: int
    steps_per_epoch: int
    most_steps: dict[str, int]
    num_refreshed: int
    training_bytes: int
    activation_bytes: int
    cache_bytes: int
    notes: tuple[str, ...]

    def rows(self) -> list[tuple[str, str]]:
        """Names and values, for a table."""
        memory = self.training_bytes + self.activation_bytes + self.cache_bytes
        return [
            ("pairs to train on", f"{self.num_pairs:,} of {self.num_queries:,} queries"),
            ("passages", f"{self.num_passages:,}"),
            ("validation queries", f"{self.num_validation_queries:,}"),
            ("passages searched for them", f"{self.num_searched_passages:,}"),
            ("query encoder", f"{self.query_parameters:,} parameters"),
            ("document encoder", f"{self.document_parameters:,} parameters"),
            ("embeddings", f"{self.dim} dimensions"),
            *([("vectors of a passage", f"{self.vectors}")] if self.vectors > 1 else []),
            ("steps per epoch", f"{self.steps_per_epoch:,}"),
            *((f"steps of {name}", f"at most {n:,}") for name, n in self.most_steps.items()),
            ("passages encoded again each step", f"{self.num_refreshed:,}"),
            ("memory, about", f"{memory / 2**30:.1f} GiB"),
            ("  weights, gradients, AdamW", f"{self.training_bytes / 2**30:.2f} GiB"),
            ("  activations", f"{self.activation_bytes / 2**30:.2f} GiB"),
            ("  negative cache", f"{self.cache_bytes / 2**30:.2f} GiB"),
            *(("note", note) for note in self.notes),
        ]


def make_plan(recipe: Recipe, progress: Progress) -> Plan:
    """Load the models and read the data of `recipe`, and estimate the size of the run.

    :raises RetrievalError: When the recipe cannot be run.
    """
    make_accelerator(recipe.optimiser.precision)
    dual_encoder = make_dual_encoder(recipe)
    with tempfile.TemporaryDirectory() as folder:
        data, validation = load_data(recipe, dual_encoder.document_tower, Path(folder), progress)
        lengths = {
            stage.name: stage.length(len(data.pairs), recipe.optimiser.batch_size)
            for stage in recipe.method.stages(recipe, dual_encoder.dim)
        }
        length = next(iter(lengths.values()))
        cached, num_refreshed = _cached(recipe, data.passages.num_passages)
        width = 2 if recipe.negatives.cache_precision == "float16" else 4
        return Plan(
            num_pairs=len(data.pairs),
            num_queries=len(data.queries),
            num_passages=data.passages.num_passages,
            num_validation_queries=len(validation.queries),
            num_searched_passages=len(validation.rows),
            query_parameters=_count(dual_encoder.query_tower),
            document_parameters=_count(dual_encoder.document_tower),
            dim=dual_encoder.dim,
            vectors=dual_encoder.document_tower.vectors,
            steps_per_epoch=length.steps_per_epoch,
            most_steps={name: each.num_steps for name, each in lengths.items()},
            num_refreshed=num_refreshed,
            training_bytes=_count(dual_encoder) * _BYTES_PER_PARAMETER,
            activation_bytes=_activation_bytes(recipe, dual_encoder, length.batch_size),
            cache_bytes=cached * dual_encoder.document_width * width,
            notes=notes_of(data, recipe),
        )


def _count(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _cached(recipe: Recipe, num_passages: int) -> tuple[int, int]:
    negatives = recipe.negatives
    if "cache" not in negatives.samplers:
        return 0, 0
    return cache_sizes(num_passages, negatives.cache_fraction, negatives.refresh_fraction)


def _activation_bytes(recipe: Recipe, dual_encoder: DualEncoder, batch_size: int) -> int:
    size = recipe.optimiser.texts_at_once
    precision = 2 if recipe.optimiser.precision == "fp32" else 1  # relative to 16 bits
    passages = batch_size if recipe.negatives.samplers == ("in_batch",) else 2 * batch_size
    towers = (
        (batch_size, dual_encoder.query_tower, recipe.query_encoder),
        (passages, dual_encoder.document_tower, recipe.document_encoder),
    )
    return sum(
        precision * min(size, texts) * _bytes_per_text(tower, settings)
        for texts, tower, settings in towers
    )


def _bytes_per_text(tower: Tower, settings: TowerTable) -> int:
    if is_lookup(tower.encoder):
        return tower.max_tokens * 2 * tower.width
    config: Any = tower.encoder[0].auto_model.config
    width, heads = config.hidden_size, config.num_attention_heads
    per_layer = tower.max_tokens * (34 * width + 5 * heads * tower.max_tokens)
    layers = config.num_hidden_layers
    if settings.gradient_checkpointing and layers:
        return int(layers * tower.max_tokens * 2 * width + per_layer)
    return int(layers * per_layer)
