"""One step of contrastive training: negatives, loss and gradient of a batch."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.loop.batch_encoder import BatchEncoder
from training.loop.candidates import CandidateSource
from training.loop.devices import backward
from training.objective.contrastive import Loss


@dataclass(frozen=True, slots=True)
class StepResult:
    """The losses of one step, before the update of the optimiser."""

    loss: float
    collapsed_loss: float


@dataclass(frozen=True, slots=True)
class ContrastiveStep:
    """Adds the gradient of a batch's mean loss to the trained parameters.

    Each process computes the loss of the whole batch from all embeddings, and backpropagates into
    the towers for the texts that it has encoded. The gradient is the sum over the processes.
    """

    encoder: BatchEncoder
    source: CandidateSource
    loss: Loss

    def __call__(self, pairs: NDArray[np.int64]) -> StepResult:
        """Take the step.

        :param pairs: Query numbers and positive rows, (n, 2).
        :raises TrainingDataError: When all negatives of all queries may be relevant.
        """
        numbers, positives = pairs.T
        texts, passages = self.source.texts, self.source.texts.passages
        asked = [texts.queries[number] for number in numbers]
        queries = self.encoder.queries_with_gradient(asked)
        found = self.source.candidates(numbers, positives, queries.embeddings.detach())
        documents = self.encoder.passages_with_gradient(passages, found.encoded)
        batch = found.scored(queries.embeddings, documents.embeddings, asked)
        loss = self.loss(batch)
        backward(self.encoder.accelerator, loss)
        queries.backward()
        documents.backward()
        self.source.sampler.update(found.encoded, documents.embeddings.detach())
        return StepResult(loss.item(), self.loss.collapsed(batch))
