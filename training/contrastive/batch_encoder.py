"""Encodes batches of texts, with or without gradient."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from accelerate import Accelerator

from swiftlet.encoders.encoder import Role
from training.data.passages import PassageTexts
from training.loop.embedding_cache import EmbeddingCache
from training.loop.lengths import computed_by_length
from training.model.dual_encoder import DualEncoder, Features
from training.model.towers import Tower
from training.objective.negatives.sampler import Rows

Head = Callable[[torch.Tensor], torch.Tensor]
"""Projects and normalises the outputs of a language model."""


@dataclass(frozen=True, slots=True)
class DetachedEmbeddings:
    """Embeddings (n, width) of a batch, without the graph of the model.

    After the backward pass of the loss, call `backward`. `carry` carries their gradient (n, width)
    into the model.
    """

    embeddings: torch.Tensor
    carry: Callable[[torch.Tensor], object]

    def backward(self) -> None:
        """Carry the gradient into the model, if a loss gave one."""
        if self.embeddings.grad is not None:
            self.carry(self.embeddings.grad)


class BatchEncoder:
    """Encodes with both towers."""

    def __init__(
        self,
        dual_encoder: DualEncoder,
        accelerator: Accelerator,
        *,
        micro_batch_size: int,
        embedding_cache: EmbeddingCache | None = None,
    ) -> None:
        """Encode at most `micro_batch_size` texts at once.

        :param embedding_cache: The outputs of the document language model while it is frozen.
        """
        self.dual_encoder = dual_encoder
        self.embedding_cache = embedding_cache
        self.accelerator = accelerator
        self._micro_batch_size = micro_batch_size

    def queries(self, texts: Sequence[str]) -> torch.Tensor:
        """Embeddings (n, dim) of `texts` by the query encoder, without gradient."""
        dual = self.dual_encoder
        return self._without_gradient(dual.query_tower, dual.project_queries, texts)

    def query_outputs(self, texts: Sequence[str]) -> torch.Tensor:
        """Outputs (n, width) of the query model for `texts`, without gradient."""
        return self._without_gradient(self.dual_encoder.query_tower, _identity, texts)

    def documents(self, texts: Sequence[str]) -> torch.Tensor:
        """Embeddings (n, document_width) of `texts` by the document encoder, without gradient."""
        dual = self.dual_encoder
        return self._without_gradient(dual.document_tower, dual.project_documents, texts)

    def as_queries(self, texts: Sequence[str]) -> torch.Tensor:
        """Outputs (n, width) of the document model for queries: with their prompt, if it has one.

        Of several vectors, a query has the first one, from the first token.
        """
        tower = self.dual_encoder.document_tower
        return self._without_gradient(tower, _identity, texts, "query")[:, : tower.width]

    def passages(self, passages: PassageTexts, rows: Rows) -> torch.Tensor:
        """Embeddings (n, document_width) of passage rows, without gradient."""
        if self.embedding_cache is None:
            return self.documents(passages.texts(rows))
        with torch.no_grad():
            outputs = self.frozen_outputs(self.embedding_cache, passages, rows)
            return self.dual_encoder.project_documents(outputs)

    def queries_with_gradient(self, texts: Sequence[str]) -> DetachedEmbeddings:
        """Embeddings of `texts` by the query encoder, for a loss."""
        dual = self.dual_encoder
        return self._with_gradient(dual.query_tower, dual.project_queries, texts)

    def passages_with_gradient(self, passages: PassageTexts, rows: Rows) -> DetachedEmbeddings:
        """Embeddings of passage rows by the document encoder, for a loss.

        If the language model is frozen, only the projection gets a gradient.
        """
        dual = self.dual_encoder
        if self.embedding_cache is None:
            return self._with_gradient(
                dual.document_tower, dual.project_documents, passages.texts(rows)
            )
        outputs = self.frozen_outputs(self.embedding_cache, passages, rows)
        return _detached(dual.project_documents(outputs))

    def frozen_outputs(
        self, known: EmbeddingCache, passages: PassageTexts, rows: Rows
    ) -> torch.Tensor:
        """Outputs (n, vectors · width) of the document model for rows, computed if not `known`."""
        tower = self.dual_encoder.document_tower

        def compute(missing: Rows) -> torch.Tensor:
            return self._without_gradient(tower, _identity, passages.texts(missing))

        return known.get(passages, rows, compute).to(self.accelerator.device)

    @torch.no_grad()
    def _without_gradient(
        self, tower: Tower, head: Head, texts: Sequence[str], role: Role | None = None
    ) -> torch.Tensor:
        def compute(batch: list[str]) -> torch.Tensor:
            return self._encode(tower, head, tower.tokenise(batch, self.accelerator.device, role))

        training = tower.training
        tower.eval()
        outputs = computed_by_length(texts, [*map(len, texts)], self._micro_batch_size, compute)
        tower.train(training)
        return outputs

    def _with_gradient(self, tower: Tower, head: Head, texts: Sequence[str]) -> DetachedEmbeddings:
        size, device = self._micro_batch_size, self.accelerator.device
        batches = [tower.tokenise(texts[i : i + size], device) for i in range(0, len(texts), size)]
        encode = partial(self._encode, tower, head)
        if len(batches) > 1:
            cached = GradCache(encode, batches)
            return DetachedEmbeddings(cached.embeddings.requires_grad_(), cached.backward)
        return _detached(encode(batches[0]))

    def _encode(self, tower: Tower, head: Head, features: Features) -> torch.Tensor:
        with self.accelerator.autocast():
            return head(tower(features)).float()


def _identity(outputs: torch.Tensor) -> torch.Tensor:
    return outputs


def _detached(outputs: torch.Tensor) -> DetachedEmbeddings:
    return DetachedEmbeddings(
        outputs.detach().requires_grad_(), partial(_backward_through, outputs)
    )


def _backward_through(outputs: torch.Tensor, gradient: torch.Tensor) -> None:
    """Carry the gradient of `outputs` into the model, unless all of it is frozen."""
    if outputs.requires_grad:
        torch.autograd.backward(outputs, gradient)


class GradCache:
    """Gradient caching: batches with gradient that are larger than memory allows at once.

    Micro-batches are encoded without a graph, and again when the gradient of the loss is known (Gao
    et al., "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", 2021).
    """

    def __init__(self, encode: Callable[[Features], torch.Tensor], batches: Sequence[Features]):
        """Encode at least one micro-batch with `encode`, without a graph."""
        self._encode, self._batches = encode, batches
        self._device = batches[0]["input_ids"].device
        self._states: list[list[torch.Tensor]] = []
        pieces = []
        with torch.no_grad():
            for features in batches:
                self._states.append(_random_state(self._device))
                pieces.append(encode(features))
        self.embeddings = torch.cat(pieces)
        """Embeddings (n, width) of all micro-batches, without gradient."""

    def backward(self, gradient: torch.Tensor) -> None:
        """Carry the gradient (n, width) of the embeddings into the encoder."""
        after = _random_state(self._device)
        parts = torch.split(gradient, [len(each["input_ids"]) for each in self._batches])
        for features, state, part in zip(self._batches, self._states, parts, strict=True):
            # Dropout must be the same as in the first pass.
            _restore_random_state(self._device, state)
            _backward_through(self._encode(features), part)
        _restore_random_state(self._device, after)


def _random_state(device: torch.device) -> list[torch.Tensor]:
    state = [torch.get_rng_state()]
    return [*state, torch.cuda.get_rng_state(device)] if device.type == "cuda" else state


def _restore_random_state(device: torch.device, state: list[torch.Tensor]) -> None:
    torch.set_rng_state(state[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state[1], device)
