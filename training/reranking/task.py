"""The training of a cross-encoder as a task of the training loop."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch.nn import functional
from typing_extensions import override

from swiftlet.encoders.reranker import order_by
from swiftlet.evaluation.metrics import evaluate_per_query
from training.errors import NotFiniteError
from training.loop.stage import Evaluation, Stage, StageLength, Task
from training.model.cross_encoder import CrossEncoder, Pair
from training.reranking.groups import Group
from training.reranking.settings import RerankerRecipe

_NDCG = "nDCG@10"
_WEIGHTS = [0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]


class RerankingTask(Task):
    """Learns to score a relevant document above the others that the same search has found.

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

    @override
    def batches(self, epoch: int) -> NDArray[np.int64]:
        return self._length.shuffled(self._recipe.seed, epoch)

    @override
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
            self._accelerator.backward(loss)
            total += loss.item()
        return {"loss": total}

    @override
    @torch.no_grad()
    def evaluate(self, step: int) -> Evaluation:
        """Re-rank the documents of the queries that are held out.

        The weight is a cautious one (`smallest_of_the_best`), and can be 0 for all checkpoints. So
        each is judged by the mean over all weights, which grows with the scores' own quality.
        """
        self._model.eval()
        logits: list[list[float]] = []
        for group in self._held_out:
            scores = self._scores([Pair(group.query.text, text) for text in group.texts]).float()
            if not scores.isfinite().all():
                raise NotFiniteError("a score")
            logits.append(scores.tolist())
        of_weights = {weight: self._ndcg(logits, weight) for weight in _WEIGHTS}
        weight = smallest_of_the_best(of_weights)
        found, searched = of_weights[weight].mean(), of_weights[0.0].mean()
        mean = np.mean([*of_weights.values()])
        metrics = {
            "ndcg@10": float(found),
            "mean_ndcg@10": float(mean),
            "searched_ndcg@10": float(searched),
            "weight": weight,
        }
        return Evaluation(
            metrics,
            score=float(mean),
            summary=f"nDCG@10 {found:.4f} with weight {weight}, of the search {searched:.4f}",
        )

    def _ndcg(self, logits: Sequence[Sequence[float]], weight: float) -> NDArray[np.float64]:
        """nDCG@10 of each query that is held out, with this weight of their logits."""
        qrels = {each.query.query_id: dict(each.grades) for each in self._held_out}
        run = {
            group.query.query_id: dict(
                zip(group.documents, order_by(group.scores, each, weight).tolist(), strict=True)
            )
            for group, each in zip(self._held_out, logits, strict=True)
        }
        return np.array([*evaluate_per_query(run, qrels, [_NDCG])[_NDCG].values()])

    def _drawn(self, group: Group, random: np.random.Generator) -> list[Pair]:
        """The pair of a relevant document, and the pairs of other documents."""
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


def smallest_of_the_best(of_weights: Mapping[float, NDArray[np.float64]]) -> float:
    """The smallest weight that is within one standard error of the best.

    The search knows nothing of the training queries, so it is trusted more on other queries. With
    0, the re-ranker is no better than the search.

    :param of_weights: The metric of each query, (n,), by weight, in ascending order.
    """
    best = max(of_weights.values(), key=np.mean)
    return next(
        weight
        for weight, values in of_weights.items()
        if np.mean(best - values) <= np.std(best - values, ddof=1) / math.sqrt(len(values))
    )
