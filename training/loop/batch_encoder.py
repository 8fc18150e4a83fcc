"""Encodes batches of texts with all processes, with or without gradient."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from accelerate import Accelerator

from training.data.passages import PassageTexts
from training.loop.embedding_cache import EmbeddingCache
from training.loop.grad_cache import GradCache
from training.loop.shares import DetachedEmbeddings, Shares, backward_through
from training.model.dual_encoder import DualEncoder, Features
from training.model.towers import Tower
from training.objective.negatives.sampler import Rows

Head = Callable[[torch.Tensor], torch.Tensor]
"""Projects and normalises the outputs of a language model."""


class BatchEncoder:
    """Encodes with both towers. Each process encodes its share and receives all embeddings."""

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
        self._shares = Shares(accelerator)

    def queries(self, texts: Sequence[str]) -> torch.Tensor:
        """Embeddings (n, dim) of `texts` by the query encoder, without gradient."""
        dual = self.dual_encoder
        return self._without_gradient(dual.query_tower, dual.project_queries, texts)

    def documents(self, texts: Sequence[str]) -> torch.Tensor:
        """Embeddings (n, document_width) of `texts` by the document encoder, without gradient."""
        dual = self.dual_encoder
        return self._without_gradient(dual.document_tower, dual.project_documents, texts)

    def document_outputs(self, texts: Sequence[str]) -> torch.Tensor:
        """Outputs (n, vectors · width) of the document model for `texts`, without gradient."""
        return self._without_gradient(self.dual_encoder.document_tower, _identity, texts)

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
        # Every process has all rows here, so only one process may add their gradient.
        outputs = self.frozen_outputs(self.embedding_cache, passages, rows)
        embeddings = dual.project_documents(outputs)
        return _detached_from(embeddings, counts=self.accelerator.is_main_process)

    def frozen_outputs(
        self, known: EmbeddingCache, passages: PassageTexts, rows: Rows
    ) -> torch.Tensor:
        """Outputs (n, vectors · width) of the document model for rows, computed if not `known`."""
        tower = self.dual_encoder.document_tower

        def compute(missing: Rows) -> torch.Tensor:
            return self._without_gradient(tower, _identity, passages.texts(missing))

        return known.get(passages, rows, compute).to(self.accelerator.device)

    @torch.no_grad()
    def _without_gradient(self, tower: Tower, head: Head, texts: Sequence[str]) -> torch.Tensor:
        def encode(own: list[str]) -> torch.Tensor:
            # Sorted by length, so that batches have little padding.
            order = np.argsort([*map(len, own)], kind="stable")
            pieces = []
            for start in range(0, len(order), self._micro_batch_size):
                indices = order[start : start + self._micro_batch_size]
                features = self._features(tower, [own[index] for index in indices])
                pieces.append(self._encode(tower, head, features))
            back = torch.from_numpy(np.argsort(order))
            return torch.cat(pieces)[back.to(pieces[0].device)]

        training = tower.training
        tower.eval()
        width = tower.vectors * (tower.width if head is _identity else self.dual_encoder.dim)
        outputs = self._shares.computed(texts, width, encode).to(self.accelerator.device)
        tower.train(training)
        return outputs

    def _with_gradient(self, tower: Tower, head: Head, texts: Sequence[str]) -> DetachedEmbeddings:
        own = list(texts[self._shares.of(len(texts))])
        size = self._micro_batch_size
        batches = [self._features(tower, own[i : i + size]) for i in range(0, len(own), size)]
        encode = partial(self._encode, tower, head)
        if len(batches) > 1:
            cached = GradCache(encode, batches)
            return self._shares.detached(cached.embeddings, len(texts), cached.backward)
        width = tower.vectors * self.dual_encoder.dim
        nothing = torch.empty(0, width, device=self.accelerator.device)  # more processes than texts
        return self._shares.detached(encode(batches[0]) if batches else nothing, len(texts))

    def _encode(self, tower: Tower, head: Head, features: Features) -> torch.Tensor:
        with self.accelerator.autocast():
            return head(tower(features)).float()

    def _features(self, tower: Tower, texts: list[str]) -> Features:
        features = tower.tokenise(texts)
        return {name: value.to(self.accelerator.device) for name, value in features.items()}


def _detached_from(embeddings: torch.Tensor, *, counts: bool) -> DetachedEmbeddings:
    leaf = embeddings.detach().requires_grad_()

    def backward() -> None:
        if counts and leaf.grad is not None:
            backward_through(embeddings, leaf.grad)

    return DetachedEmbeddings(leaf, backward)


def _identity(outputs: torch.Tensor) -> torch.Tensor:
    return outputs
