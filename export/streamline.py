"""The same encoder in modules that trace to fewer operators.

A short query spends about a microsecond in every operator, whatever it does, so those that do
nothing for one text a run are worth leaving out.
"""

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Features = dict[str, Tensor]


class MeanPooling(nn.Module):
    """The mean of the token embeddings (batch, tokens, dim) under the mask, as one product."""

    def forward(self, features: Features) -> Features:
        """Add the sentence embedding (batch, dim)."""
        mask = features["attention_mask"].unsqueeze(1).to(torch.float32)
        total = (mask @ features["token_embeddings"]).squeeze(1)
        return {**features, "sentence_embedding": total / mask.sum(dim=2)}


class UnitLength(nn.Module):
    """The embedding divided by its length."""

    def forward(self, features: Features) -> Features:
        """Replace the sentence embedding (batch, dim)."""
        embedding = features["sentence_embedding"]
        length = embedding.norm(dim=-1, keepdim=True).clamp_min(1e-12)
        return {**features, "sentence_embedding": embedding / length}


class _Zero(nn.Module):
    """In the place of a table whose one row in use was added to another table."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("zero", torch.zeros(1))

    def forward(self, _ids: Tensor) -> Tensor:
        return self.zero  # type: ignore[return-value]


def streamlined(model: "SentenceTransformer") -> "SentenceTransformer":
    """A copy of `model` that computes the same; `model` itself is left as it was."""
    from sentence_transformers import SentenceTransformer

    modules: list[Any] = []
    for module in copy.deepcopy(model):
        kind = type(module).__name__
        if kind == "Pooling" and module.pooling_mode == "mean":
            modules.append(MeanPooling())
        elif kind == "Normalize":
            modules.append(UnitLength())
        else:
            modules.append(module)
    embeddings: Any = getattr(modules[0].auto_model, "embeddings", None)
    types = getattr(embeddings, "token_type_embeddings", None)
    words = getattr(embeddings, "word_embeddings", None)
    if isinstance(types, nn.Embedding) and isinstance(words, nn.Embedding):
        # Retrieval has no second segment: every token is of type 0.
        with torch.no_grad():
            words.weight += types.weight[0]
        embeddings.token_type_embeddings = _Zero()
    return SentenceTransformer(modules=modules, device="cpu").eval()
