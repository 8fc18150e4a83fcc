"""Permutes the hidden units of an encoder and flips signs of its outputs.

A permuted encoder replaces an independently pre-trained one if only one checkpoint is available.
It computes the same function, but in another basis. This creates the mismatch of distributions that
makes dual encoders collapse (001, section 3.2).
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from training.model.errors import ModelError
from training.model.loading import is_pooler
from training.model.poolings import pooling_of
from training.model.towers import Tower
from training.tables import Seed, Table

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# Linear maps that read hidden units, and those that write them, by the last two parts of the name.
_READERS = {
    *("self.query", "self.key", "self.value", "intermediate.dense"),  # BERT, RoBERTa, ELECTRA
    *("attn.q", "attn.k", "attn.v"),  # MPNet
    *("attention.q_lin", "attention.k_lin", "attention.v_lin", "ffn.lin1"),  # DistilBERT
}
_WRITERS = {"output.dense", "embeddings_project", "attn.o", "attention.out_lin", "ffn.lin2"}
# Embedding tables with a column for each head, or for each unit of a head.
_TABLES_OF_HEADS = ("relative_attention_bias", "distance_embedding")
# These are linear in the token embeddings. A maximum would become a minimum when signs are flipped.
_POOLINGS = ("cls", "mean", "first_", "weighted", "last")


class Permutation(Table):
    """The seed of a permutation of a tower's basis; by default there is none."""

    permute_basis: Seed | None = None


def permute(tower: Tower, settings: Permutation) -> None:
    """Permute the basis of a tower, if the settings say so.

    :raises ModelError: When its function cannot be kept, or it has no basis.
    """
    if settings.permute_basis is None:
        return
    if tower.is_lookup:
        raise ModelError("a look-up encoder has no hidden basis: leave out permute_basis")
    permute_basis(tower.encoder, settings.permute_basis)


@torch.no_grad()
def permute_basis(model: "SentenceTransformer", seed: int) -> tuple[Tensor, Tensor]:
    """Change the hidden basis of `model`, Transformer → Pooling → …, in place.

    Units are permuted from the embedding tables to the last layer norm. Signs are flipped only in
    the last layer norm: a layer norm subtracts the mean over units, and flipped signs change the
    mean, so that flips before a layer norm would change the function.

    :returns: The permutation (width,) and the signs (width,). The new token embeddings are
        `before[..., permutation] * signs`. The output of a Dense after the pooling is unchanged.
    :raises ModelError: When the function cannot be kept for this architecture, pooling or module.
        The model is then unchanged.
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
    """The modules that read hidden units, with weights (…, width), and those that write them.

    Embedding tables are among the first, since their columns are hidden units.
    """
    readers: list[Any] = []
    writers: list[Any] = []
    for name, module in language_model.named_modules():
        if is_pooler(f"{name}.") or not any(True for _ in module.parameters(recurse=False)):
            continue
        if name.startswith("embeddings.") and hasattr(language_model, "embeddings_project"):
            continue  # ELECTRA's embeddings have their own basis before they are projected
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
    """The linear map that reads the pooled output, or None if there is no such map."""
    if "+" in pooling_of(model) or not pooling_of(model).startswith(_POOLINGS):
        raise ModelError(f"the basis cannot be permuted under pooling {pooling_of(model)}")
    for other in others:
        kind = type(other).__name__
        if kind == "Dense":
            linear: nn.Linear = other.linear
            return linear
        if kind not in {"Dropout", "Normalize", "UnitVectors"}:
            raise ModelError(f"the basis cannot be permuted before a module {kind}")
    return None
