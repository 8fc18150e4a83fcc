"""Pooling that keeps the outputs of the first tokens as vectors of their own (ME-BERT)."""

from typing import Any

import torch
from sentence_transformers.sentence_transformer.modules import Module, Normalize
from torch.nn import functional


class FirstTokensPooling(Module):  # type: ignore[misc]
    """The outputs of the first `first_tokens` tokens, special tokens included (002, section 3).

    Each output is a vector. If a text has fewer tokens, the first output stands for the missing
    outputs: the best of the vectors is the same.
    """

    config_keys = ["embedding_dimension", "first_tokens"]  # noqa: RUF012 - as its base declares it

    def __init__(self, embedding_dimension: int, first_tokens: int) -> None:
        super().__init__()
        self.embedding_dimension = embedding_dimension
        self.first_tokens = first_tokens

    @property
    def vectors(self) -> int:
        """How many vectors a text has."""
        return self.first_tokens

    @property
    def name(self) -> str:
        """The name with the number of tokens."""
        return f"first_{self.first_tokens}_tokens"

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add vectors (batch, first_tokens, dim) to token embeddings (batch, tokens, dim)."""
        embeddings, mask = features["token_embeddings"], features["attention_mask"]
        # Counted by the mask and not by position, so that padding may be on either side.
        first, count = mask.argmax(dim=1, keepdim=True), mask.sum(dim=1, keepdim=True)
        places = torch.arange(self.first_tokens, device=mask.device).unsqueeze(0)
        places = first + places * (places < count)
        index = places.unsqueeze(2).expand(-1, -1, embeddings.shape[2])
        features["sentence_embedding"] = embeddings.gather(1, index)
        return features

    def get_embedding_dimension(self) -> int:
        """The size of each vector."""
        return self.embedding_dimension

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write the configuration; there are no weights."""
        self.save_config(output_path)


class UnitVectors(Normalize):  # type: ignore[misc]
    """Gives each vector of a text (batch, vectors, dim) the length 1."""

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Replace the vectors."""
        vectors = features["sentence_embedding"]
        return {**features, "sentence_embedding": functional.normalize(vectors, dim=-1)}
