"""A torch encoder with the interface of an exported one."""

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn import functional

from swiftlet.types import Embeddings
from training.model.towers import Tower


class TorchEncoder:
    """Encodes with torch, one text per forward pass; embeddings are normalised."""

    def __init__(self, tower: Tower, model: torch.nn.Module, dim: int, space: str) -> None:
        self.dim = self.width = dim
        self.max_tokens = tower.max_tokens
        self.embedding_space = space
        self._tower = tower
        self._model = model
        self._device = next(model.parameters()).device

    def tokenise(self, text: str) -> list[int]:
        """Token ids of one text, truncated to `max_tokens`."""
        ids: list[int] = self._tower.tokenise([text])["input_ids"][0].tolist()
        return ids

    @torch.inference_mode()
    def embed(self, token_ids: Sequence[int]) -> Embeddings:
        """The normalised embedding (dim,) of one tokenised text."""
        ids = torch.tensor([list(token_ids)], device=self._device)
        output = self._model({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
        embedding: Embeddings = functional.normalize(output.float(), dim=-1)[0].cpu().numpy()
        return embedding

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """The normalised embeddings (n, dim) of `texts`, one after the other."""
        return np.stack([self.embed(self.tokenise(text)) for text in texts])
