"""A pooling of our own: the largest value of each unit over the tokens."""

from typing import Any

import torch
from sentence_transformers.sentence_transformer.modules import Module


class MaxPooling(Module):
    """The largest value of each unit."""

    config_keys = ["embedding_dimension"]  # noqa: RUF012 - as its base declares it
    name = "largest"

    def __init__(self, embedding_dimension: int) -> None:
        super().__init__()
        self.embedding_dimension = embedding_dimension

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        masked = features["token_embeddings"].masked_fill(
            features["attention_mask"].unsqueeze(-1) == 0, torch.finfo(torch.float32).min
        )
        features["sentence_embedding"] = masked.amax(dim=1)
        return features

    def get_embedding_dimension(self) -> int:
        return self.embedding_dimension

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        self.save_config(output_path)
