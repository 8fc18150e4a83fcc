"""ADORE: the query encoder learns from what it finds itself, while documents stay as they are.

Zhan et al., "Optimizing Dense Retrieval Model Training with Hard Negatives", 2021.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from typing_extensions import override

from swiftlet.index.vectors.vector_index import VectorIndex
from training.contrastive.stage import ContrastiveStage
from training.methods import Method, Schedule
from training.model.dual_encoder import Part
from training.objective.contrastive import NamedLoss, Scale, ScoredBatch
from training.objective.negatives.mined import array_of, nearest_negatives, passage_index
from training.objective.negatives.sampler import (
    PerQuery,
    QueryBatch,
    Rows,
    SamplerInputs,
    SeededSampler,
)


class DynamicSampler(SeededSampler):
    """Takes the passages nearest to each query now, without its known positives.

    These are the dynamic negatives of ADORE (Zhan et al., "Optimizing Dense Retrieval Model
    Training with Hard Negatives", 2021, section 4.2). The document encoder must not change: its
    index is built once, at the first draw, and searched in every step. Memory: the index.
    """

    def __init__(self, settings: PerQuery, inputs: SamplerInputs) -> None:
        super().__init__(settings, inputs)
        self._index: VectorIndex | None = None

    @classmethod
    @override
    def check(cls, recipe: Any) -> None:
        if recipe.recipe != "adore":
            raise ValueError(
                "negatives.samplers has 'dynamic', which needs documents that stay as they are: "
                "choose recipe 'adore', or the sampler 'mined'"
            )

    @override
    def _draw(self, batch: QueryBatch, random: np.random.Generator) -> Rows:
        if self._index is None:
            encode = self.inputs.encode_passages
            self._index = passage_index(encode, self.inputs, self.per_query)
        nearest = partial(nearest_negatives, self._index, self.known, self.per_query)
        found = [*map(nearest, batch.queries.tolist(), array_of(batch.embeddings))]
        return np.array(found, dtype=np.int64).reshape(-1, self.per_query)


class Adore(Method):
    """Train the query encoder alone (section 4.2)."""

    keeps_documents = True

    @override
    def stages(self, recipe: Schedule, dim: int) -> list[ContrastiveStage]:
        trained: frozenset[Part] = frozenset({"query_encoder"})
        stage = recipe.fine_tuning_stage("adore", lambda _step: trained)
        rates = {part: rate for part, rate in stage.learning_rates.items() if part in trained}
        return [replace(stage, learning_rates=rates)]


class LambdaLoss(NamedLoss):
    """The pairwise loss of ADORE: Σ Δ · log(1 + exp(s⁻ − s⁺)) over the negatives of a query.

    Δ is how much nDCG would change if the positive and the negative changed places in the ranking
    of both and all other negatives (Zhan et al. 2021, section 4.2; LambdaRank). Negatives that rank
    high, and positives that rank low, weigh most.
    """

    def __init__(self, settings: Scale) -> None:
        self._scale = settings.scale

    @classmethod
    @override
    def check(cls, recipe: Any) -> None:
        if "cache" in recipe.negatives.samplers:
            raise ValueError(
                "loss.kind is 'lambda', but the sampler 'cache' keeps negatives without a "
                "gradient: choose other negatives.samplers, such as 'mined' or 'dynamic'"
            )

    @override
    def __call__(self, batch: ScoredBatch) -> torch.Tensor:
        logits, positives = batch.logits(self._scale), batch.positives.unsqueeze(1)
        ranks = logits.detach().argsort(dim=1, descending=True, stable=True).argsort(dim=1) + 1
        gains = 1 / torch.log2(ranks + 1.0)
        changes = (gains.gather(1, positives) - gains).abs()
        margins = logits.masked_fill(~batch.negatives, 0.0) - logits.gather(1, positives)
        losses = changes * functional.softplus(margins) * batch.negatives
        return losses.sum(1).mean()

    @override
    def collapsed(self, batch: ScoredBatch) -> float:
        return self(replace(batch, scores=torch.zeros_like(batch.scores))).item()
