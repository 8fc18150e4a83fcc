"""What a recipe can name. A new sampler, loss or method is a file and a line of this one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Self

from pydantic import Field, model_validator

from training.companions import sharing
from training.companions.adore import Adore, DynamicSampler, LambdaLoss
from training.companions.late_interaction import TaughtLoss, Teacher, taught
from training.companions.permutation import Permutation, permute
from training.companions.several_vectors import FirstTokens, check_passages
from training.contrastive.false_negatives import TeacherShare
from training.daft import Daft
from training.methods import Alternating, Contrastive, Method
from training.objective.contrastive import NamedLoss, Scale, SoftmaxLoss
from training.objective.negatives.bm25 import Bm25Sampler
from training.objective.negatives.cache import Cache, NegativeCache
from training.objective.negatives.mined import Mined, MinedSampler
from training.objective.negatives.sampler import (
    MixedSampler,
    NamedSampler,
    NegativeSampler,
    SamplerInputs,
)
from training.objective.negatives.simple import GivenSampler, InBatchSampler, UniformSampler
from training.tables import OneOf

METHODS: Mapping[str, Method] = {
    "daft": Daft(),
    "contrastive": Contrastive(),
    "alternating": Alternating(),
    "adore": Adore(),
}

LOSSES: Mapping[str, type[NamedLoss]] = {"softmax": SoftmaxLoss, "lambda": LambdaLoss}

SAMPLERS: Mapping[str, type[NamedSampler]] = {
    "cache": NegativeCache,
    "in_batch": InBatchSampler,
    "uniform": UniformSampler,
    "bm25": Bm25Sampler,
    "mined": MinedSampler,
    "dynamic": DynamicSampler,
    "given": GivenSampler,
}

CHECKS = (sharing.check, TaughtLoss.check)
"""Of a recipe."""

CHANGES = (permute,)
"""Of a tower, by its table."""

JOINS = (sharing.share,)
"""Of the two towers, by the table of the dual encoder."""

CHECKS_OF_PASSAGES = (check_passages,)
"""Of the number of vectors a passage, and the table of passages."""

NOTES = (sharing.notes_of,)
"""On a recipe."""

ADDED_TO_LOSS = (taught,)
"""To the loss of a recipe, while the document model is untrained."""


class OfTower(FirstTokens, Permutation):
    """What companions add to the table of a tower."""


class OfPair(sharing.Sharing):
    """What companions add to the table of the dual encoder."""


class Loss(Scale, Teacher):
    """[loss]: eq. 5, section 5.3.2, or another loss of `LOSSES`; and the share of a teacher."""

    kind: Annotated[str, OneOf(LOSSES)] = "softmax"


class Negatives(Cache, Mined, TeacherShare):
    """[negatives]: how D⁻ is drawn. It has the settings of all samplers.

    The negatives of all `samplers` are combined. With `shared`, each query has the negatives of all
    queries in the batch.
    """

    samplers: Annotated[tuple[Annotated[str, OneOf(SAMPLERS)], ...], Field(min_length=1)] = (
        "cache",
        "in_batch",
    )
    shared: bool = False

    @model_validator(mode="after")
    def _samplers_are_distinct(self) -> Self:
        if len(set(self.samplers)) < len(self.samplers):
            raise ValueError("samplers names a sampler twice")
        return self

    def make(self, inputs: SamplerInputs) -> NegativeSampler:
        """The sampler of a stage. Several samplers are combined into one.

        :raises InvalidArgumentError: When the settings contradict the data.
        """
        made = [
            # Samplers must draw different random numbers.
            SAMPLERS[name](self, replace(inputs, seed=(*inputs.seed, place)))
            for place, name in enumerate(self.samplers)
        ]
        return made[0] if len(made) == 1 else MixedSampler(made)
