"""What makes two embeddings comparable, as one hash."""

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from training.loading import is_pooler

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# A transformer's configuration as far as its weights do not show it, under all its names.
_ARCHITECTURE = {
    "model_type": ("model_type",),
    "num_attention_heads": ("num_attention_heads", "n_heads", "num_heads"),
    "activation": ("hidden_act", "activation", "feed_forward_proj"),
    "layer_norm_eps": ("layer_norm_eps", "layer_norm_epsilon"),
}


def embedding_space(model: "SentenceTransformer") -> str:
    """The SHA-256, in hexadecimal, over the weights and the configuration that shape embeddings.

    Weights count by name, shape and float32 bytes, sorted by name; files, formats, versions of
    libraries, the tokenizer and truncation do not count.
    """
    modules = [module for module in model if type(module).__name__ != "Dropout"]
    digest = hashlib.sha256()
    digest.update(json.dumps([_describe(module) for module in modules], sort_keys=True).encode())
    for number, module in enumerate(modules):
        weights = getattr(module, "auto_model", module).named_parameters()
        for name, weight in sorted(weights, key=lambda item: item[0]):
            if is_pooler(name):
                continue
            values = np.ascontiguousarray(weight.detach().cpu().numpy(), dtype="<f4")
            digest.update(f"{number}.{name} {values.dtype.str} {values.shape}\n".encode())
            digest.update(values.tobytes())
    return digest.hexdigest()


def _describe(module: Any) -> dict[str, Any]:
    kind = type(module).__name__
    if kind == "Transformer":
        config = module.auto_model.config
        known = {
            field: next((value for n in names if (value := getattr(config, n, None))), None)
            for field, names in _ARCHITECTURE.items()
        }
        return {"type": kind, **known}
    if kind == "Pooling":
        mode = module.pooling_mode
        return {"type": kind, "mode": [mode] if isinstance(mode, str) else list(mode)}
    if kind == "FirstTokensPooling":
        return {"type": kind, "first_tokens": module.first_tokens}
    if kind == "Dense":
        return {"type": kind, "activation": type(module.activation_function).__name__}
    return {"type": kind}
