"""Look-up encoders: one vector for each token, and their mean for a text; no transformer."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from training.model.errors import ModelError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

MODULE = "StaticEmbedding"
"""The module of Sentence Transformers that has the table of a look-up encoder."""


def is_lookup(encoder: "SentenceTransformer") -> bool:
    """Whether an encoder is a table of token vectors."""
    return type(encoder[0]).__name__ == MODULE


def table_of(encoder: "SentenceTransformer") -> "SentenceTransformer":
    """A look-up encoder without its normalisation; the weights are shared."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(modules=[encoder[0]], device="cpu")


def make_lookup(tokenizer: Any, table: Tensor, max_tokens: int) -> "SentenceTransformer":
    """The look-up encoder with a `table` (tokens, width).

    :param tokenizer: Of the library tokenizers. Its special tokens are left out of texts.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    own = without_special_tokens(tokenizer)
    own.enable_truncation(max_tokens)
    return SentenceTransformer(modules=[StaticEmbedding(own, table)], device="cpu")


def without_special_tokens(tokenizer: Any) -> Any:
    """A copy of a tokenizer of the library tokenizers that adds no special tokens to texts."""
    content = json.loads(tokenizer.to_str())
    content["post_processor"] = None
    return type(tokenizer).from_str(json.dumps(content))


def check_lookup(folder: Path, encoder: "SentenceTransformer") -> None:
    """Check that each token has a vector of finite numbers.

    :raises ModelError: When the vocabulary is larger than the table, or the table is not finite.
    """
    table = encoder[0].embedding.weight
    token, number = max(encoder.tokenizer.get_vocab().items(), key=lambda item: item[1])
    if number >= len(table):
        raise ModelError(
            f"the tokenizer of {folder} gives {token!r} the number {number}, but the table has "
            f"vectors for the numbers 0 to {len(table) - 1}"
        )
    if len(bad := (~table.isfinite().all(dim=1)).nonzero()):
        raise ModelError(
            f"{folder} has a number in row {int(bad[0])} of its table that is not finite"
        )


def bags(features: dict[str, Tensor]) -> dict[str, Tensor]:
    """The token ids of all texts in one row, and where each text begins, of padded token ids."""
    mask = features["attention_mask"].bool()
    offsets = torch.zeros(len(mask), dtype=torch.int64, device=mask.device)
    offsets[1:] = mask.sum(dim=1).cumsum(dim=0)[:-1]
    return {"input_ids": features["input_ids"][mask], "offsets": offsets}
