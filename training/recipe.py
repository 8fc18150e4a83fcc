"""A training run as a TOML file: every setting, its bounds and its default."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, ValidationError, model_validator

from training.divergence import AlignmentStopping
from training.dual_encoder import Projection, Start
from training.encoders import TowerSettings
from training.errors import RecipeError, TrainingDataError
from training.faults import faults
from training.overrides import apply_override
from training.sources import DataSource
from training.step import NegativeGradient

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]

FEWEST_QUERIES = 8
"""Of fewer points an effective rank says nothing."""

FloatingPoint = Literal["fp32", "bf16", "fp16"]
SamplerName = Literal["cache", "in_batch", "uniform", "bm25", "mined", "given"]


class _Table(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False
    )


class Source(_Table):
    """[[data]]: pairs of a query and a relevant document.

    `corpus` is whatever `swiftlet index` takes, or `irds:NAME`; `queries` is where the queries are,
    by default there too; `qrels` a split of the corpus's BEIR folder, a file, or `irds:NAME`.
    `triples` (MS MARCO's, by ids or by texts) take the place of qrels.
    """

    corpus: str | None = None
    queries: str | None = None
    qrels: str | None = None
    triples: str | None = None

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        try:
            self.data_source()
        except TrainingDataError as error:
            raise ValueError(str(error)) from error
        return self

    def data_source(self) -> DataSource:
        """The same, as `training.data` takes it."""
        return DataSource(**self.model_dump())


class PassagesTable(_Table):
    """[passages]: how documents are cut before they are encoded; tokens are the document tower's.

    With `truncate` each is one passage, of which the tower reads the beginning. `positive` says
    which passage of a long relevant document a query is paired with: the one that shares the most
    telling words, or the first.
    """

    tokens: Count = 128
    overlap_tokens: Annotated[int, Field(ge=0)] = 16
    truncate: bool = False
    positive: Literal["lexical", "first"] = "lexical"


class Validation(_Table):
    """[validation]: the queries that choose the best checkpoint and measure alignment.

    `queries` of them are taken away from the training data, or, where sources are given, from
    those. They are searched among their own relevant passages and others up to `max_passages`.
    `sample` bounds what alignment and collapse are measured on.
    """

    queries: Annotated[int, Field(ge=FEWEST_QUERIES)] = 500
    data: tuple[Source, ...] = ()
    max_passages: Count = 50_000
    every: Annotated[int, Field(ge=0, description="steps; 0 for once an epoch")] = 0
    sample: Annotated[int, Field(ge=FEWEST_QUERIES)] = 512
    factory: str | None = None


class TowerTable(_Table):
    """[query_encoder], [document_encoder]: a checkpoint and what is made of it."""

    model: str
    layers: tuple[int, ...] | None = None
    pooling: Literal["cls", "mean", "first_tokens"] | None = None
    first_tokens: Count = 8
    max_tokens: Count | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    permute_basis: Seed | None = None
    random_weights: bool = False
    trust_remote_code: bool = False
    gradient_checkpointing: bool = False

    def settings(self) -> TowerSettings:
        """The same, as `training.encoders` takes it."""
        return TowerSettings(**self.model_dump(exclude={"gradient_checkpointing"}))


class DualEncoderTable(_Table):
    """[dual_encoder]: the projection W, b and the size a of the embeddings (eqs 10, 11).

    `start` "orthogonal" begins with a projection that keeps angles as far as `dim` allows.
    """

    projection: Projection = "shared"
    dim: Count | None = None
    start: Start = "random"


class Loss(_Table):
    """[loss]: eq. 5, section 5.3.2."""

    score_factor: Positive = 20.0
    temperature: Positive = 1.0


class Negatives(_Table):
    """[negatives]: where D⁻ comes from, and what of it carries gradient.

    `samplers` are mixed; each but in_batch draws `per_query`. `cache_fraction` is α and
    `refresh_fraction` ρ of section 4.1; `depth` is how many of the best passages BM25 and the mined
    index draw from.
    """

    samplers: Annotated[tuple[SamplerName, ...], Field(min_length=1)] = ("cache", "in_batch")
    per_query: Count = 64
    shared: bool = False
    gradient: NegativeGradient = "cached"
    cache_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    refresh_fraction: Fraction = 0.001
    cache_precision: Literal["float32", "float16"] = "float32"
    depth: Count = 200
    refresh_every: Count = 1000

    @model_validator(mode="after")
    def _can_be_constants(self) -> Self:
        others = set(self.samplers) - {"cache", "in_batch"}
        if self.gradient == "cached" and others:
            raise ValueError(
                f"gradient 'cached' needs kept embeddings, which {', '.join(sorted(others))} "
                "has not: choose gradient = 're-encoded'"
            )
        if len(set(self.samplers)) < len(self.samplers):
            raise ValueError("a sampler stands twice in samplers")
        if {"bm25", "mined"} & set(self.samplers) and self.depth < self.per_query:
            raise ValueError(
                f"depth is {self.depth}, but per_query {self.per_query} of so many are to be drawn"
            )
        return self


class Optimiser(_Table):
    """[optimiser]: AdamW, warm-up and then the schedule; each stage begins anew."""

    learning_rate: Positive = 1e-5
    document_learning_rate: Positive | None = None
    projection_learning_rate: Positive | None = None
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    warmup_steps: Annotated[int, Field(ge=0)] = 1000
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    batch_size: Annotated[int, Field(ge=2)] = 48
    micro_batch_size: Count | None = None
    max_gradient_norm: Positive | None = 1.0
    precision: FloatingPoint = "fp32"


class Alignment(_Table):
    """[alignment]: the first stage of DAFT; the document language model is frozen (section 4).

    Without a threshold patience alone ends it.
    """

    max_epochs: Positive = 20
    train_projection: bool = True
    threshold: StrictFloat | None = None
    threshold_per_dimension: float | None = None
    patience: Count | None = 3
    learning_rate: Positive | None = None

    def stopping(self, dim: int) -> AlignmentStopping:
        """When to stop, for embeddings of this size."""
        per_dimension = self.threshold_per_dimension if self.threshold is None else None
        return AlignmentStopping(
            dim=dim,
            threshold=self.threshold,
            threshold_per_dimension=per_dimension,
            patience=self.patience,
        )


class FineTuning(_Table):
    """[fine_tuning]: the second stage, both towers (section 5.3.1)."""

    epochs: Positive = 10


class Collapse(_Table):
    """[collapse]: when a run counts as collapsed; `stop` false goes on all the same."""

    stop: bool = True
    cosine: Fraction = 0.95
    effective_rank: Annotated[float, Field(ge=1)] = 3.0
    loss_share: Fraction = 0.9
    patience: Count = 2


class Recipe(_Table):
    """A whole run. `recipe` names the function of `training.recipes` that runs it.

    With `keep_stages` the weights at the end of each stage stay in `stages/`. `frozen_outputs` is a
    folder in which runs share what a frozen document language model said about each passage.
    """

    recipe: Literal["daft", "contrastive", "alternating"]
    seed: Seed = 0
    data: Annotated[tuple[Source, ...], Field(min_length=1)]
    query_encoder: TowerTable
    document_encoder: TowerTable
    dual_encoder: DualEncoderTable = DualEncoderTable()
    passages: PassagesTable = PassagesTable()
    validation: Validation = Validation()
    loss: Loss = Loss()
    negatives: Negatives = Negatives()
    optimiser: Optimiser = Optimiser()
    alignment: Alignment = Alignment()
    fine_tuning: FineTuning = FineTuning()
    collapse: Collapse = Collapse()
    tensorboard: bool = False
    keep_stages: bool = False
    frozen_outputs: str | None = None

    @model_validator(mode="after")
    def _has_what_samplers_need(self) -> Self:
        if "given" in self.negatives.samplers and all(s.triples is None for s in self.data):
            raise ValueError("negatives.samplers has 'given', but no source in data has triples")
        return self


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe and apply `key.of.table=value` on top.

    A value is TOML, or else a string; none at all takes the setting back to its default.

    Paths in it are relative to the working directory.

    :raises RecipeError: When the file cannot be read, or with all that is wrong in it.
    """
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RecipeError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path} is not TOML: {error}") from error
    for override in overrides:
        apply_override(content, override)
    return parse_recipe(content, str(path))


def parse_recipe(content: dict[str, Any], name: str) -> Recipe:
    """Validate a recipe's tables.

    :raises RecipeError: With all that is wrong.
    """
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        raise RecipeError(f"{name}: {faults(error, Recipe)}") from error
