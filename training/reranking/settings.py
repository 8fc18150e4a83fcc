"""The recipe of a cross-encoder."""

from typing import Annotated, Literal

from pydantic import Field

from swiftlet.search.request import Mode
from training.loop.optimisation import Optimiser
from training.model.towers import TowerSettings
from training.tables import Count, Positive, Seed, Table

CROSS_ENCODER = "cross-encoder"
"""The name of the recipe."""


class JudgedTable(Table):
    """[[data]]: queries, and qrels for documents of the index.

    A document is relevant if its grade is at least `relevant_from`.
    """

    queries: str
    qrels: str
    relevant_from: Count = 1


class CrossEncoderTable(Table):
    """[cross_encoder]: a cross-encoder, or an encoder to begin with, and the changes to it."""

    model: str
    layers: tuple[int, ...] | None = None
    max_tokens: Count | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    trust_remote_code: bool = False

    def settings(self) -> TowerSettings:
        """The settings as `training.model` takes them."""
        return TowerSettings(**self.model_dump())


class Candidates(Table):
    """[candidates]: the documents of the index that are learnt from.

    Of the `depth` best documents of each query, found by meaning, by words or both, one relevant
    and `negatives` other documents are drawn for each step. Validation re-ranks the `reranked`
    best documents.
    """

    mode: Mode | None = None
    depth: Count = 50
    negatives: Count = 7
    reranked: Count = 20


class Validation(Table):
    """[validation]: `queries`, at most a fifth of all, are re-ranked each `every` steps."""

    queries: Count = 200
    every: Annotated[int, Field(ge=0, description="steps; 0 for once an epoch")] = 0


class RerankerRecipe(Table):
    """The settings of a run. The batch size counts queries, each with all its candidates."""

    recipe: Literal["cross-encoder"]
    seed: Seed = 0
    index: str
    data: Annotated[tuple[JudgedTable, ...], Field(min_length=1)]
    cross_encoder: CrossEncoderTable
    candidates: Candidates = Candidates()
    validation: Validation = Validation()
    optimiser: Optimiser = Optimiser()
    epochs: Positive = 2
    average: Annotated[float, Field(ge=0, lt=1)] = 0.0
