"""TCT-ColBERT: a share of the loss is by the scores of a late-interaction teacher.

Lin et al., "In-Batch Negatives for Knowledge Distillation with Tightly-Coupled Teachers for Dense
Retrieval", 2021, section 3. The teacher is the document model before its training.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import torch
from accelerate import Accelerator
from pydantic import Field
from torch.nn import functional
from typing_extensions import override

from swiftlet.encoders.encoder import Role
from swiftlet.errors import InvalidArgumentError
from training.contrastive.batch_encoder import BatchEncoder
from training.data.passages import PassageTexts
from training.model.towers import Tower
from training.objective.contrastive import Loss, ScoredBatch
from training.tables import Positive, Table


class Teacher(Table):
    """The share of the teacher in the loss, and the divisor of its scores."""

    teacher_weight: Annotated[float, Field(ge=0, le=1)] = 0.0
    teacher_temperature: Positive = 0.25


class TaughtLoss(Loss):
    """Another loss, and the imitation of a teacher's scores, as a weighted mean."""

    def __init__(
        self,
        other: Loss,
        teacher: "LateInteraction",
        passages: PassageTexts,
        settings: Teacher,
        scale: float,
    ) -> None:
        """:param scale: The factor of the student's scores, as in the `other` loss."""
        self._other, self._teacher, self._passages, self._scale = other, teacher, passages, scale
        self._weight, self._temperature = settings.teacher_weight, settings.teacher_temperature

    @staticmethod
    def check(recipe: Any) -> None:
        """Check that there are negatives with texts.

        :raises ValueError: When there are none.
        """
        if recipe.loss.teacher_weight and recipe.negatives.samplers == ("cache",):
            raise ValueError(
                "loss.teacher_weight is for negatives whose texts are encoded, but the sampler "
                "'cache' keeps embeddings: add another of negatives.samplers, such as 'in_batch'"
            )

    @override
    def __call__(self, batch: ScoredBatch) -> torch.Tensor:
        read = slice(len(batch.rows))
        texts = replace(batch, scores=batch.scores[:, read], negatives=batch.negatives[:, read])
        scores = self._teacher.scores(batch.queries, self._passages.texts(batch.rows))
        imitation = teacher_loss(texts, scores, self._scale, self._temperature)
        return (1 - self._weight) * self._other(batch) + self._weight * imitation

    @override
    def collapsed(self, batch: ScoredBatch) -> float:
        return self._other.collapsed(batch)


def taught(loss: Loss, recipe: Any, passages: PassageTexts, encoder: BatchEncoder) -> Loss:
    """The loss of a recipe, with the share of the teacher that it asks for.

    :raises InvalidArgumentError: When the document model cannot be a teacher.
    """
    settings = recipe.loss
    if not settings.teacher_weight:
        return loss
    size = recipe.optimiser.texts_at_once
    teacher = LateInteraction(encoder.dual_encoder.document_tower, encoder.accelerator, size)
    return TaughtLoss(loss, teacher, passages, settings, settings.scale)


class LateInteraction:
    """Scores texts as ColBERT: each token of a query finds its most similar one in a document.

    The score is the sum of these cosines over the tokens of the query (Khattab and Zaharia 2020).
    Queries and documents are encoded by the document model as it is before its training.
    """

    def __init__(self, tower: Tower, accelerator: Accelerator, micro_batch_size: int) -> None:
        """Copy the document tower, and encode at most `micro_batch_size` texts at once.

        :raises InvalidArgumentError: When it is a look-up encoder, whose tokens have no context.
        """
        if tower.is_lookup:
            raise InvalidArgumentError(
                "loss.teacher_weight needs the outputs of tokens, which a look-up encoder does not "
                "have: choose another document_encoder.model, or set it to 0"
            )
        self._tower = copy.deepcopy(tower).eval().requires_grad_(False)
        self._accelerator, self._size = accelerator, micro_batch_size

    @torch.no_grad()
    def scores(self, queries: Sequence[str], documents: Sequence[str]) -> torch.Tensor:
        """The score of each document for each query, (n, m)."""
        starts = self._starts(queries)
        parts = [self._encoded(queries[i : i + self._size], "query") for i in starts]
        rows = []
        for first in self._starts(documents):
            tokens, present = self._encoded(documents[first : first + self._size])
            rows.append(torch.cat([_max_sim(*part, tokens, present) for part in parts]))
        return torch.cat(rows, dim=1)

    def _starts(self, texts: Sequence[str]) -> range:
        return range(0, len(texts), self._size)

    def _encoded(
        self, texts: Sequence[str], role: Role | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The outputs of tokens, of length 1 (n, tokens, width), and whether there is one."""
        features = self._tower.tokenise(texts, self._accelerator.device, role)
        with self._accelerator.autocast():
            outputs = self._tower.token_outputs(features)
        return functional.normalize(outputs.float(), dim=-1), features["attention_mask"].bool()


def _max_sim(
    queries: torch.Tensor, asked: torch.Tensor, documents: torch.Tensor, present: torch.Tensor
) -> torch.Tensor:
    """The sum over the `asked` tokens of each query of the best of those `present`, (n, m)."""
    cosines = torch.einsum("qiw,djw->qidj", queries, documents)
    best = cosines.masked_fill(~present, -torch.inf).amax(3)
    return (best * asked.unsqueeze(2)).sum(1)


def teacher_loss(
    batch: ScoredBatch, teacher: torch.Tensor, scale: float, temperature: float
) -> torch.Tensor:
    """KL(teacher ‖ student) of the softmaxes over each query's positive and negatives, the mean.

    :param teacher: The teacher's scores (queries, documents), which are divided by `temperature`.
    :param scale: The factor of the student's scores.
    """
    found = batch.logits(scale).log_softmax(1)
    wanted = replace(batch, scores=teacher).logits(1 / temperature).log_softmax(1)
    differences = (wanted - found).masked_fill(~batch.counted, 0.0)
    return (wanted.exp() * differences).sum(1).mean()
