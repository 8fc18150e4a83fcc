"""Pooling by the mean of the first token embeddings."""

from typing import Any

import torch
from sentence_transformers.sentence_transformer.modules import Module


class FirstTokensPooling(Module):  # type: ignore[misc]
    """The mean of the first `first_tokens` token embeddings, special tokens included.

    This lies between `cls`, the first token alone, and `mean`, all tokens. ME-BERT (002) keeps the
    first tokens as separate vectors instead.
    """

    config_keys = ["embedding_dimension", "first_tokens"]  # noqa: RUF012 - as its base declares it

    def __init__(self, embedding_dimension: int, first_tokens: int) -> None:
        super().__init__()
        self.embedding_dimension = embedding_dimension
        self.first_tokens = first_tokens

    @property
    def name(self) -> str:
        """The name with the number of tokens."""
        return f"first_{self.first_tokens}_tokens"

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add the sentence embedding (batch, dim) to token embeddings (batch, tokens, dim)."""
        embeddings, mask = features["token_embeddings"], features["attention_mask"]
        # Counted by the mask and not by position, so that padding may be on either side.
        kept = (mask * (mask.cumsum(dim=1) <= self.first_tokens)).to(embeddings.dtype)
        total = torch.matmul(kept.unsqueeze(1), embeddings).squeeze(1)
        features["sentence_embedding"] = total / kept.sum(dim=1, keepdim=True).clamp_min(1)
        return features

    def get_embedding_dimension(self) -> int:
        """The size of the sentence embedding."""
        return self.embedding_dimension

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write the configuration; there are no weights."""
        self.save_config(output_path)
