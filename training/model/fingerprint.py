"""The fingerprint of an embedding space: only embeddings of the same space can be compared."""

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from training.model.loading import is_pooler

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from training.model.towers import Tower

# The settings of a transformer that its weights do not show, under all their names.
_ARCHITECTURE = {
    "model_type": ("model_type",),
    "num_attention_heads": ("num_attention_heads", "n_heads", "num_heads"),
    "activation": ("hidden_act", "activation", "feed_forward_proj"),
    "layer_norm_eps": ("layer_norm_eps", "layer_norm_epsilon"),
}
# Modules that are fully described by their type and weights.
_WITHOUT_SETTINGS = ("Normalize", "UnitVectors", "LayerNorm")


def embedding_space(model: "SentenceTransformer") -> str:
    """The SHA-256, in hexadecimal, of the weights and settings that determine embeddings.

    Of a weight, the name, the shape and the float32 bytes are hashed, sorted by name. File formats,
    versions of libraries, the tokenizer and truncation are left out.
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


def outputs_key(tower: "Tower", precision: str) -> str:
    """All that the outputs of a tower for a text depend on, in this precision."""
    space = embedding_space(tower.with_projection(None))
    return f"{space} {tower.max_tokens} {precision}{tower.prompt}"


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
    if kind == "Dense":
        return {"type": kind, "activation": type(module.activation_function).__name__}
    if kind in _WITHOUT_SETTINGS:
        return {"type": kind}
    # A pooling of ours; the weights before it show its width.
    settings = module.get_config_dict()
    return {"type": kind, **{k: v for k, v in settings.items() if k != "embedding_dimension"}}
