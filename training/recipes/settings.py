"""The settings of a recipe, a TOML file, with their bounds and defaults."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    ValidationError,
    model_validator,
)

from training.contrastive.collapse import Collapse
from training.daft import DaftSchedule
from training.data.sources import DataSource
from training.data.validation_set import FEWEST_QUERIES
from training.errors import RecipeError
from training.methods import Method
from training.model.dual_encoder import Projection, Start
from training.model.poolings import check_pooling
from training.model.towers import TowerSettings
from training.recipes.overrides import read_tables
from training.recipes.registry import (
    CHECKS,
    LOSSES,
    METHODS,
    SAMPLERS,
    Loss,
    Negatives,
    OfPair,
    OfTower,
)
from training.recipes.validation_errors import describe_errors
from training.tables import Count, OneOf, Seed, Table

Tables = TypeVar("Tables", bound=BaseModel)

PoolingName = Annotated[str, AfterValidator(check_pooling)]


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
    data: tuple[DataSource, ...] = ()
    max_passages: Count = 50_000
    every: Annotated[int, Field(ge=0, description="steps; 0 for once an epoch")] = 0
    sample: Annotated[int, Field(ge=FEWEST_QUERIES)] = 512
    factory: str | None = None


class TowerTable(OfTower):
    """[query_encoder], [document_encoder]: a checkpoint and the changes to it."""

    model: str
    layers: tuple[int, ...] | None = None
    pooling: PoolingName | None = None
    max_tokens: Count | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    random_weights: bool = False
    trust_remote_code: bool = False
    gradient_checkpointing: bool = False

    def settings(self) -> TowerSettings:
        """The settings as `training.model` takes them."""
        names = {field.name for field in fields(TowerSettings)}
        return TowerSettings(**self.model_dump(include=names))


class DualEncoderTable(OfPair):
    """[dual_encoder]: the projection W, b and the size a of the embeddings (eqs 10, 11).

    With `layer_norm`, a layer normalisation follows (DE-BERT-k, 002). With the `start`
    "orthogonal", the initial projection keeps angles as far as `dim` allows.
    """

    projection: Projection = "shared"
    dim: Count | None = None
    layer_norm: bool = False
    start: Start = "random"


class Recipe(DaftSchedule):
    """The settings of a run. `recipe` is the name of a method in `METHODS`.

    With `keep_stages` the weights at the end of each stage are kept in `stages/`. `embedding_cache`
    is a folder for the embedding cache, which runs with the same document encoder share.
    """

    recipe: Annotated[str, OneOf(METHODS)]
    seed: Seed = 0
    data: Annotated[tuple[DataSource, ...], Field(min_length=1)]
    query_encoder: TowerTable
    document_encoder: TowerTable
    dual_encoder: DualEncoderTable = DualEncoderTable()
    passages: PassagesTable = PassagesTable()
    validation: Validation = Validation()
    loss: Loss = Loss()
    negatives: Negatives = Negatives()
    collapse: Collapse = Collapse()
    tensorboard: bool = False
    keep_stages: bool = False
    embedding_cache: str | None = None

    @property
    def method(self) -> Method:
        """The method that the recipe names."""
        return METHODS[self.recipe]

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
        for name in self.negatives.samplers:
            SAMPLERS[name].check(self)
        LOSSES[self.loss.kind].check(self)
        for check in CHECKS:
            check(self)
        return self


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe and apply the overrides, as `read_tables` does.

    :raises RecipeError: When the file cannot be read, or has errors; the message lists all of them.
    """
    return parse_recipe(read_tables(path, overrides), str(path))


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
