"""The settings of a recipe, a TOML file, with their bounds and defaults."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictFloat,
    ValidationError,
    model_validator,
)

from training.data.sources import DataSource
from training.data.validation_set import FEWEST_QUERIES
from training.errors import RecipeError, TrainingDataError
from training.model.dual_encoder import Projection, Sharing, Start
from training.model.poolings import check_pooling
from training.model.towers import TowerSettings
from training.objective.contrastive import LossKind, NegativeGradient
from training.objective.divergence import AlignmentStopping, PlateauFigure
from training.recipes.overrides import apply_override
from training.recipes.validation_errors import describe_errors

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]

Tables = TypeVar("Tables", bound=BaseModel)

PoolingName = Annotated[str, AfterValidator(check_pooling)]
FloatingPoint = Literal["fp32", "bf16", "fp16"]
SamplerName = Literal["cache", "in_batch", "uniform", "bm25", "mined", "dynamic", "given"]


class Table(BaseModel):
    """A table of a recipe."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False
    )


class Source(Table):
    """[[data]]: pairs of a query and a relevant document.

    `corpus` is a corpus as for `swiftlet index`, or `irds:NAME`. `queries` is the path of the
    queries, by default the path of the corpus. `qrels` is a split of the corpus's BEIR folder, a
    file, or `irds:NAME`. `triples` of MS MARCO, with ids or with texts, replace qrels. A document
    is relevant if its grade is at least `relevant_from`; a lower grade counts as 0.
    """

    corpus: str | None = None
    queries: str | None = None
    qrels: str | None = None
    triples: str | None = None
    relevant_from: Count = 1

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        try:
            self.data_source()
        except TrainingDataError as error:
            raise ValueError(str(error)) from error
        return self

    def data_source(self) -> DataSource:
        """The source as `training.data` takes it."""
        return DataSource(**self.model_dump())


class PassagesTable(Table):
    """[passages]: how documents are split into passages; tokens are counted by the document tower.

    With `truncate` each document is one passage, and the tower reads its beginning. `positive`
    chooses the passage of a long relevant document that a query is paired with: the passage with
    the greatest lexical similarity, or the first.
    """

    tokens: Count = 128
    overlap_tokens: Annotated[int, Field(ge=0)] = 16
    truncate: bool = False
    positive: Literal["lexical", "first"] = "lexical"


class Validation(Table):
    """[validation]: the queries that choose the best checkpoint and measure alignment.

    They are held out from the training data, or taken from `data` if there are such sources. Their
    relevant passages and other passages, up to `max_passages`, are searched. `sample` limits the
    number of texts that alignment and collapse are measured on.
    """

    queries: Annotated[int, Field(ge=FEWEST_QUERIES)] = 500
    data: tuple[Source, ...] = ()
    max_passages: Count = 50_000
    every: Annotated[int, Field(ge=0, description="steps; 0 for once an epoch")] = 0
    sample: Annotated[int, Field(ge=FEWEST_QUERIES)] = 512
    factory: str | None = None


class TowerTable(Table):
    """[query_encoder], [document_encoder]: a checkpoint and the changes to it."""

    model: str
    layers: tuple[int, ...] | None = None
    pooling: PoolingName | None = None
    first_tokens: Count = 8
    max_tokens: Count | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    permute_basis: Seed | None = None
    random_weights: bool = False
    trust_remote_code: bool = False
    gradient_checkpointing: bool = False

    @model_validator(mode="after")
    def _first_tokens_are_pooled(self) -> Self:
        default = type(self).model_fields["first_tokens"].default
        if self.first_tokens != default and self.pooling != "first_tokens":
            raise ValueError(
                "first_tokens is for several vectors: set pooling to 'first_tokens', too"
            )
        return self

    def settings(self) -> TowerSettings:
        """The settings as `training.model` takes them."""
        return TowerSettings(**self.model_dump(exclude={"gradient_checkpointing"}))


class DualEncoderTable(Table):
    """[dual_encoder]: the projection W, b and the size a of the embeddings (eqs 10, 11).

    With `layer_norm`, a layer normalisation follows (DE-BERT-k, 002). With the `start`
    "orthogonal", the initial projection keeps angles as far as `dim` allows.
    `sharing` is what the language models of both encoders have in common (003).
    """

    projection: Projection = "shared"
    dim: Count | None = None
    layer_norm: bool = False
    start: Start = "random"
    sharing: Sharing = "none"


class Loss(Table):
    """[loss]: eq. 5, section 5.3.2; or the pairwise loss of ADORE, "lambda".

    `teacher_weight` is the share of a loss by the scores of a late-interaction teacher, the
    untrained document model, in batches (TCT-ColBERT).
    """

    kind: LossKind = "softmax"
    score_factor: Positive = 20.0
    temperature: Positive = 1.0
    teacher_weight: Annotated[float, Field(ge=0, le=1)] = 0.0
    teacher_temperature: Positive = 0.25


class Negatives(Table):
    """[negatives]: how D⁻ is drawn, and the gradient of cached negatives.

    The negatives of all `samplers` are combined. Each sampler except in_batch draws `per_query`.
    With the `gradient` "re-encoded", the cache gives the best `per_query` and one of them is
    encoded again; with "cached", it draws them. `cache_fraction` is α and `refresh_fraction` ρ of
    section 4.1. The samplers bm25 and mined draw from the `depth` best passages. With a
    `teacher_share`, a passage is no negative if the untrained document encoder scores it above this
    share of the score of the positive: it may be relevant without a judgement.
    """

    samplers: Annotated[tuple[SamplerName, ...], Field(min_length=1)] = ("cache", "in_batch")
    per_query: Count = 64
    shared: bool = False
    gradient: NegativeGradient = "re-encoded"
    cache_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    refresh_fraction: Fraction = 0.001
    cache_precision: Literal["float32", "float16"] = "float32"
    depth: Count = 200
    refresh_every: Annotated[int, Field(ge=0, description="steps; 0 for never")] = 1000
    teacher_share: Annotated[float, Field(gt=0, le=1)] | None = None

    @model_validator(mode="after")
    def _samplers_are_distinct_and_deep(self) -> Self:
        if len(set(self.samplers)) < len(self.samplers):
            raise ValueError("samplers names a sampler twice")
        if {"bm25", "mined"} & set(self.samplers) and self.depth < self.per_query:
            raise ValueError(
                f"depth is {self.depth}: at least per_query, {self.per_query}, is expected"
            )
        return self


class Optimiser(Table):
    """[optimiser]: AdamW and its learning rate schedule; each stage starts both again."""

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

    @property
    def texts_at_once(self) -> int:
        """The texts that a tower encodes at once; by default a positive and a negative a query."""
        return self.micro_batch_size or 2 * self.batch_size


class Alignment(Table):
    """[alignment]: the first stage of DAFT; the document language model is frozen (section 4).

    It ends below a threshold of the KL estimate, or when `plateau_of` has improved by less than
    `least_gain` for `patience` epochs.
    """

    max_epochs: Positive = 20
    train_projection: bool = True
    threshold: StrictFloat | None = None
    threshold_per_dimension: float | None = None
    patience: Positive | None = 1
    plateau_of: PlateauFigure = "ndcg@10"
    least_gain: Annotated[float, Field(ge=0)] = 0.005
    learning_rate: Positive | None = None

    def stopping(self, dim: int) -> AlignmentStopping:
        """The stopping rule for embeddings of this size."""
        per_dimension = self.threshold_per_dimension if self.threshold is None else None
        return AlignmentStopping(
            dim=dim,
            threshold=self.threshold,
            threshold_per_dimension=per_dimension,
            patience=self.patience,
            plateau_of=self.plateau_of,
            least_gain=self.least_gain,
        )


class FineTuning(Table):
    """[fine_tuning]: the second stage, both towers (section 5.3.1).

    It has `epochs`, but at most `max_steps`. `average` is the share of the initial weights in the
    final ones.
    """

    epochs: Positive = 10
    max_steps: Count | None = None
    average: Annotated[float, Field(ge=0, lt=1)] = 0.0


class Collapse(Table):
    """[collapse]: when a run counts as collapsed, and whether it then stops."""

    stop: bool = True
    cosine: Fraction = 0.95
    effective_rank: Annotated[float, Field(ge=1)] = 3.0
    loss_share: Fraction = 0.9
    ndcg_share: Fraction = 0.5
    patience: Count = 2


class Recipe(Table):
    """The settings of a run. `recipe` is the name of a method in `training.methods`.

    With `keep_stages` the weights at the end of each stage are kept in `stages/`. `embedding_cache`
    is a folder for the embedding cache, which runs with the same document encoder share.
    """

    recipe: Literal["daft", "contrastive", "alternating", "adore"]
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
    embedding_cache: str | None = None

    @model_validator(mode="after")
    def _is_one_encoder(self) -> Self:
        if self.dual_encoder.sharing != "all":
            return self
        tables = (table.model_dump() for table in (self.query_encoder, self.document_encoder))
        of_queries, of_documents = tables
        differing = [name for name in of_queries if of_queries[name] != of_documents[name]]
        if differing:
            raise ValueError(
                f"dual_encoder.sharing is 'all', but query_encoder.{differing[0]} and "
                f"document_encoder.{differing[0]} differ: make them equal, or share less"
            )
        if self.recipe != "contrastive":
            raise ValueError(
                f"dual_encoder.sharing is 'all', but recipe '{self.recipe}' trains the encoders "
                "apart: choose recipe 'contrastive', or share less"
            )
        if self.dual_encoder.projection == "separate":
            raise ValueError(
                "dual_encoder.sharing is 'all', but its projection is 'separate': choose 'shared' "
                "or 'none', or share less"
            )
        return self

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.fine_tuning.average and (
            self.dual_encoder.projection != "none" and self.dual_encoder.start == "random"
        ):
            raise ValueError(
                "fine_tuning.average is with the initial weights, but a random projection has no "
                "use for them: set fine_tuning.average to 0, dual_encoder.start to 'orthogonal', "
                "or dual_encoder.projection to 'none'"
            )
        if self.dual_encoder.sharing == "token_embeddings" and self.recipe == "adore":
            raise ValueError(
                "dual_encoder.sharing is 'token_embeddings', but recipe 'adore' keeps documents as "
                "they are: set it to 'none' or 'frozen_token_embeddings'"
            )
        samplers = self.negatives.samplers
        if "dynamic" in samplers and self.recipe != "adore":
            raise ValueError(
                "negatives.samplers has 'dynamic', which needs documents that stay as they are: "
                "choose recipe 'adore', or the sampler 'mined'"
            )
        if "cache" in samplers and self.loss.kind == "lambda":
            raise ValueError(
                "loss.kind is 'lambda', but the sampler 'cache' keeps negatives without a "
                "gradient: choose other negatives.samplers, such as 'mined' or 'dynamic'"
            )
        if self.loss.teacher_weight and samplers == ("cache",):
            raise ValueError(
                "loss.teacher_weight is for negatives whose texts are encoded, but the sampler "
                "'cache' keeps embeddings: add another of negatives.samplers, such as 'in_batch'"
            )
        if "given" in samplers and all(s.triples is None for s in self.data):
            raise ValueError("negatives.samplers has 'given', but no source in data has triples")
        return self


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe and apply the overrides, as `read_tables` does.

    :raises RecipeError: When the file cannot be read, or has errors; the message lists all of them.
    """
    return parse_recipe(read_tables(path, overrides), str(path))


def read_tables(path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Read the tables of a recipe and apply the overrides `key.of.table=value`.

    A value is parsed as TOML; if that fails, it is a string. An empty value restores the default.
    Paths in a recipe are relative to the working directory.

    :raises RecipeError: When the file cannot be read, or is not TOML.
    """
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RecipeError(
            f"{path} cannot be read: {error.strerror}; a recipe is a file, such as "
            "training/recipes/own-corpus.toml"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path} is not TOML: {error}") from error
    for override in overrides:
        apply_override(content, override)
    return content


def parse_recipe(content: dict[str, Any], name: str) -> Recipe:
    """Validate the tables of a recipe.

    :raises RecipeError: When there are errors; the message lists all of them.
    """
    return parse_tables(Recipe, content, name)


def parse_tables(kind: type[Tables], content: dict[str, Any], name: str) -> Tables:
    """Validate the tables of a `kind` of recipe.

    :raises RecipeError: When there are errors; the message lists all of them.
    """
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise RecipeError(f"{name}: {describe_errors(error, kind)}") from error
