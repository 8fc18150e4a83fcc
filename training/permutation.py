"""The same function in another basis: hidden units permuted, and outputs with their sign flipped.

A permuted tower stands in for an independently pre-trained one where only one checkpoint is at
hand. It is as good a language model as before, but each of its units means something else: the
mismatch of distributions that makes dual encoders collapse (001, section 3.2).
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from training.errors import ModelError
from training.loading import is_pooler, pooling_of

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# Linear maps, by the last two of their names: those that read hidden units, those that write them.
_READERS = {
    *("self.query", "self.key", "self.value", "intermediate.dense"),  # BERT, RoBERTa, ELECTRA
    *("attn.q", "attn.k", "attn.v"),  # MPNet
    *("attention.q_lin", "attention.k_lin", "attention.v_lin", "ffn.lin1"),  # DistilBERT
}
_WRITERS = {"output.dense", "embeddings_project", "attn.o", "attention.out_lin", "ffn.lin2"}
# Tables that have a column for each head, or for each unit of a head.
_TABLES_OF_HEADS = ("relative_attention_bias", "distance_embedding")
# Linear in the token embeddings, unlike a maximum, which a flipped sign turns into a minimum.
_POOLINGS = ("cls", "mean", "first_", "weighted", "last")


@torch.no_grad()
def permute_basis(model: "SentenceTransformer", seed: int) -> tuple[Tensor, Tensor]:
    """Change the hidden basis of `model`, Transformer → Pooling → …, in place.

    Units are permuted from the embedding tables to the last layer norm. Signs are flipped in that
    last one alone: a layer norm subtracts the mean over units, which a permutation leaves as it is
    but flips do not, so flips further in would be another function.

    :returns: The permutation (width,) and the signs (width,), such that token embeddings are now
        `before[..., permutation] * signs`; what a Dense behind the pooling gives is as before.
    :raises ModelError: When the hidden units of the architecture, or of what follows, are not
        known. The model is then as it was.
    """
    transformer, _, *others = model
    language_model = transformer.auto_model
    width = int(language_model.config.hidden_size)
    readers, writers = _hidden_modules(language_model, width)
    following = _following(model, others)
    generator = torch.Generator().manual_seed(seed)
    permutation = torch.randperm(width, generator=generator)
    signs = 1.0 - 2.0 * torch.randint(2, (width,), generator=generator)
    for module in readers:
        module.weight.copy_(module.weight[:, permutation])
    for module in writers:
        for parameter in module.parameters():
            parameter.copy_(parameter[permutation])
    for parameter in writers[-1].parameters():
        parameter.mul_(signs.view(-1, *[1] * (parameter.ndim - 1)))
    if following is not None:
        following.weight.copy_(following.weight[:, permutation] * signs)
    return permutation, signs


def _hidden_modules(language_model: nn.Module, width: int) -> tuple[list[Any], list[Any]]:
    """The modules whose weights (…, width) read hidden units, and those that write them, in order.

    An embedding table, whose columns are hidden units, counts among the former.
    """
    readers: list[Any] = []
    writers: list[Any] = []
    for name, module in language_model.named_modules():
        if is_pooler(f"{name}.") or not any(True for _ in module.parameters(recurse=False)):
            continue
        if name.startswith("embeddings.") and hasattr(language_model, "embeddings_project"):
            continue  # ELECTRA's embeddings have a basis of their own, until they are projected
        parts = name.split(".")
        last_two = ".".join(parts[-2:])
        if isinstance(module, nn.Embedding) and parts[-1] in _TABLES_OF_HEADS:
            continue
        if isinstance(module, nn.Embedding) and module.embedding_dim == width:
            readers.append(module)
        elif isinstance(module, nn.LayerNorm) and module.normalized_shape == (width,):
            writers.append(module)
        elif isinstance(module, nn.Linear) and last_two in _READERS:
            readers.append(module)
        elif isinstance(module, nn.Linear) and last_two in _WRITERS:
            writers.append(module)
        else:
            raise ModelError(
                f"the basis of a {type(language_model).__name__} cannot be permuted: it is not "
                f"known how its {name} uses hidden units"
            )
    return readers, writers


def _following(model: "SentenceTransformer", others: list[Any]) -> nn.Linear | None:
    """The linear map that reads the pooled output, or None where that is the model's own."""
    if "+" in pooling_of(model) or not pooling_of(model).startswith(_POOLINGS):
        raise ModelError(f"the basis cannot be permuted under pooling {pooling_of(model)}")
    for other in others:
        kind = type(other).__name__
        if kind == "Dense":
            linear: nn.Linear = other.linear
            return linear
        if kind not in {"Dropout", "Normalize"}:
            raise ModelError(f"the basis cannot be permuted before a module {kind}")
    return None
