"""Simplifies an encoder so that its ONNX graph has fewer operators.

Each operator takes at least about a microsecond, which counts for short queries. Operators without
an effect on a single text are removed.
"""

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Features = dict[str, Tensor]


class MeanPooling(nn.Module):
    """The masked mean of token embeddings (batch, tokens, dim), as one matrix product."""

    def forward(self, features: Features) -> Features:
        """Add the sentence embedding (batch, dim)."""
        mask = features["attention_mask"].unsqueeze(1).to(torch.float32)
        total = (mask @ features["token_embeddings"]).squeeze(1)
        return {**features, "sentence_embedding": total / mask.sum(dim=2)}


class UnitLength(nn.Module):
    """The embedding, or each of its vectors, divided by its length."""

    def forward(self, features: Features) -> Features:
        """Replace the sentence embedding (batch, dim) or (batch, vectors, dim)."""
        embedding = features["sentence_embedding"]
        length = embedding.norm(dim=-1, keepdim=True).clamp_min(1e-12)
        return {**features, "sentence_embedding": embedding / length}


class _Zero(nn.Module):
    """Replaces an embedding table after its only used row was added to another table."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("zero", torch.zeros(1))

    def forward(self, _ids: Tensor) -> Tensor:
        return self.zero  # type: ignore[return-value]


def simplified(model: "SentenceTransformer") -> "SentenceTransformer":
    """A copy of `model` with fewer operators that computes the same."""
    from sentence_transformers import SentenceTransformer

    modules: list[Any] = []
    for module in copy.deepcopy(model):
        kind = type(module).__name__
        if kind == "Pooling" and module.pooling_mode == "mean":
            modules.append(MeanPooling())
        elif kind in ("Normalize", "UnitVectors"):
            modules.append(UnitLength())
        else:
            modules.append(module)
    embeddings: Any = getattr(modules[0].auto_model, "embeddings", None)
    types = getattr(embeddings, "token_type_embeddings", None)
    words = getattr(embeddings, "word_embeddings", None)
    if isinstance(types, nn.Embedding) and isinstance(words, nn.Embedding):
        # Texts have one segment in retrieval, so all tokens are of type 0.
        with torch.no_grad():
            words.weight += types.weight[0]
        embeddings.token_type_embeddings = _Zero()
    return SentenceTransformer(modules=modules, device="cpu").eval()
