"""Token embeddings to one: the mean of the first few."""

from typing import Any

import torch
from sentence_transformers.sentence_transformer.modules import Module


class FirstTokensPooling(Module):  # type: ignore[misc]
    """The mean of the first `first_tokens` token embeddings, special tokens included.

    The middle between the first token alone (`cls`) and all (`mean`), and the single-vector
    relative of ME-BERT (002), which keeps the first tokens apart.
    """

    config_keys = ["embedding_dimension", "first_tokens"]  # noqa: RUF012 - as its base declares it

    def __init__(self, embedding_dimension: int, first_tokens: int) -> None:
        super().__init__()
        self.embedding_dimension = embedding_dimension
        self.first_tokens = first_tokens

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add the sentence embedding (batch, dim) to token embeddings (batch, tokens, dim)."""
        embeddings, mask = features["token_embeddings"], features["attention_mask"]
        # By the mask and not by place, so that padding may stand on either side.
        kept = (mask * (mask.cumsum(dim=1) <= self.first_tokens)).to(embeddings.dtype)
        total = torch.matmul(kept.unsqueeze(1), embeddings).squeeze(1)
        features["sentence_embedding"] = total / kept.sum(dim=1, keepdim=True).clamp_min(1)
        return features

    def get_embedding_dimension(self) -> int:
        """How wide the sentence embedding is."""
        return self.embedding_dimension

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write the configuration; there are no weights."""
        self.save_config(output_path)
