"""The training of a cross-encoder as a task of the training loop."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch.nn import functional

from swiftlet.evaluation.metrics import evaluate
from training.errors import NotFiniteError
from training.loop.stage import Evaluation, Stage, StageLength
from training.model.cross_encoder import CrossEncoder, Pair
from training.reranking.groups import Group
from training.reranking.settings import RerankerRecipe

_NDCG = "nDCG@10"


class RerankingTask:
    """Learns to score a relevant document above others that a search has found with it.

    The loss of a query is −log of the softmax probability of a relevant document among the drawn
    ones (Gao et al., "Rethink Training of BERT Rerankers in Multi-Stage Retrieval Pipeline", 2021).
    """

    def __init__(
        self,
        recipe: RerankerRecipe,
        model: CrossEncoder,
        groups: Sequence[Group],
        held_out: Sequence[Group],
        accelerator: Accelerator,
    ) -> None:
        self._recipe, self._model, self._accelerator = recipe, model, accelerator
        self._groups, self._held_out = groups, held_out
        self._length = StageLength(len(groups), recipe.optimiser.batch_size, recipe.epochs)

    def stage(self) -> Stage:
        """This task for the training loop."""
        recipe = self._recipe
        return Stage(
            name=recipe.recipe,
            task=self,
            length=self._length,
            parameters=[(list(self._model.parameters()), recipe.optimiser.learning_rate)],
            evaluate_every=recipe.validation.every or self._length.steps_per_epoch,
            seed=(recipe.seed,),
        )

    def prepare(self) -> None:
        """Nothing is needed before the first evaluation."""

    def batches(self, epoch: int) -> NDArray[np.int64]:
        """Numbers of queries, (steps_per_epoch, batch_size), in the order of this epoch."""
        size, steps = self._length.batch_size, self._length.steps_per_epoch
        order = np.random.default_rng([self._recipe.seed, epoch]).permutation(len(self._groups))
        return order[: steps * size].reshape(steps, size)

    def backward(self, step: int, batch: NDArray[np.int64]) -> dict[str, float]:
        """Compute the loss of a batch of queries and its gradient, some queries at a time."""
        self._model.train()
        random = np.random.default_rng([self._recipe.seed, step, 1])
        drawn = [self._drawn(self._groups[number], random) for number in batch]
        size, total = self._recipe.optimiser.micro_batch_size or len(drawn), 0.0
        for first in range(0, len(drawn), size):
            part = drawn[first : first + size]
            scores = torch.split(
                self._scores([pair for pairs in part for pair in pairs]), [*map(len, part)]
            )
            losses = [-functional.log_softmax(each.float(), dim=0)[0] for each in scores]
            loss = torch.stack(losses).sum() / len(drawn)
            scaler = self._accelerator.scaler
            (loss if scaler is None else scaler.scale(loss)).backward()
            total += loss.item()
        return {"loss": total}

    def after_step(self) -> None:
        """Nothing depends on the parameters."""

    @torch.no_grad()
    def evaluate(self, step: int) -> Evaluation:  # noqa: ARG002
        """Re-rank the documents of the queries that are held out."""
        self._model.eval()
        before = {
            each.query.query_id: {name: 1 / rank for rank, name in enumerate(each.documents, 1)}
            for each in self._held_out
        }
        after = {}
        for group in self._held_out:
            scores = self._scores([Pair(group.query.text, text) for text in group.texts]).float()
            if not scores.isfinite().all():
                raise NotFiniteError("a score")
            after[group.query.query_id] = dict(zip(group.documents, scores.tolist(), strict=True))
        qrels = {each.query.query_id: dict(each.grades) for each in self._held_out}
        found = evaluate(after, qrels, [_NDCG])[_NDCG]
        searched = evaluate(before, qrels, [_NDCG])[_NDCG]
        metrics = {"ndcg@10": found, "searched_ndcg@10": searched}
        return Evaluation(
            metrics, score=found, summary=f"nDCG@10 {found:.4f}, of the search {searched:.4f}"
        )

    def state(self) -> Mapping[str, Any]:
        """Nothing is kept between steps."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Nothing was kept."""

    def _drawn(self, group: Group, random: np.random.Generator) -> list[Pair]:
        """The pair of a relevant document, and those of others."""
        others = group.others
        count = min(self._recipe.candidates.negatives, len(others))
        places = [random.choice(group.relevant), *random.choice(others, count, replace=False)]
        return [Pair(group.query.text, group.texts[place]) for place in places]

    def _scores(self, pairs: Sequence[Pair]) -> torch.Tensor:
        features = self._model.tokenise(pairs)
        device = self._accelerator.device
        with self._accelerator.autocast():
            scores: torch.Tensor = self._model({n: ids.to(device) for n, ids in features.items()})
        return scores
