"""Loads torch encoders from disk or from the hub without running code that comes with them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from swiftlet.encoders.encoder import Role
from swiftlet.errors import InvalidArgumentError
from training.model.errors import ModelError
from training.model.exported import exported_model
from training.model.folders import first_line, is_cross_encoder, is_exported, read_json
from training.model.lookup import MODULE, check_lookup, is_lookup, without_special_tokens
from training.model.poolings import is_pooling, own_modules
from training.model.quiet import quiet

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_MODULES = {"Transformer", "Pooling", "Dense", "LayerNorm", "Dropout", "Normalize", MODULE}
_LOOKUP_TOKENS = 512


def load_model(
    folder: Path,
    *,
    attention: Literal["eager"] | None = None,
    config: Mapping[str, Any] | None = None,
    trust_remote_code: bool = False,
) -> "SentenceTransformer":
    """Load the modules of `folder` on the CPU, in float32, with a fast tokenizer.

    A Sentence Transformers directory gives Transformer → Pooling → …, or the table of a look-up
    encoder, and so does an encoder that was exported. Any other Hugging Face checkpoint gives a
    Transformer alone; the caller adds the pooling.

    :param attention: `eager` for plain attention; by default the fastest form of the model.
    :param config: Changes to the transformer's configuration. Keys that it lacks are ignored.
    :param trust_remote_code: Allow code that comes with the model to run.
    :raises InvalidArgumentError: When `folder` holds no model, or a cross-encoder.
    :raises ModelError: When the model cannot be loaded, needs its own code, lacks weights, is
        no text encoder of the kind above, or has no fast tokenizer.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Transformer

    if is_exported(folder):
        with quiet():
            return exported_model(folder, config or {})
    whole = (folder / "modules.json").is_file()
    if whole:
        _check_modules(folder)
    elif not (folder / "config.json").is_file():
        raise InvalidArgumentError(f"{folder} has neither modules.json nor config.json: no model")
    elif is_cross_encoder(folder):
        raise InvalidArgumentError(
            f"{folder} is a cross-encoder, which gives no embeddings: name an encoder"
        )
    trust = {"trust_remote_code": trust_remote_code}
    model_arguments: dict[str, Any] = {"dtype": torch.float32}
    if attention is not None:
        model_arguments["attn_implementation"] = attention
    arguments = {
        "model_kwargs": {**model_arguments, **trust},
        "config_kwargs": {**(config or {}), **trust},
        "processor_kwargs": trust,
    }
    with quiet():
        try:
            if whole:
                model = SentenceTransformer(
                    str(folder), device="cpu", local_files_only=True, **trust, **arguments
                )
            else:
                transformer = Transformer(str(folder), **arguments)
                model = SentenceTransformer(modules=[transformer], device="cpu")
        except Exception as error:  # a broken checkpoint makes the libraries raise many types
            if "trust_remote_code" in str(error):
                raise ModelError(
                    f"{folder} cannot be loaded: it needs its own code, which only runs with "
                    "trust_remote_code (--trust-remote-code)"
                ) from error
            raise ModelError(f"{folder} cannot be loaded: {first_line(error)}") from error
        if whole:
            _check_encoder(folder, model)
        if is_lookup(model):
            check_lookup(folder, model)
            model[0].tokenizer = without_special_tokens(model.tokenizer)
            return model
        place = read_json(folder / "modules.json")[0]["path"] if whole else ""
        _check_weights(folder / place, model, trust_remote_code=trust_remote_code)
    tokenizer = model.tokenizer
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(
            f"{folder} has only a slow tokenizer ({type(tokenizer).__name__}), but a fast one, "
            "which has a tokenizer.json, is needed"
        )
    return model


def is_pooler(name: str) -> bool:
    """Whether a weight belongs to BERT's pooler. No embedding depends on it."""
    return name.startswith("pooler.")


def choose_max_tokens(model: "SentenceTransformer", wanted: int | None) -> int:
    """The number of tokens to which texts are truncated: `wanted`, or the model's own setting.

    :raises InvalidArgumentError: When `wanted` is out of range, or missing and the model has no
        setting.
    """
    if is_lookup(model):
        smallest, largest = 1, None
        # A table has no greatest length of its own.
        own = (model.tokenizer.truncation or {}).get("max_length", _LOOKUP_TOKENS)
    else:
        smallest = model.tokenizer.num_special_tokens_to_add() + 1
        largest = _num_positions(model)
        own = model.max_seq_length
    if wanted is None:
        known = [bound for bound in (own, largest) if bound is not None and bound < 10**6]
        if not known:
            raise InvalidArgumentError(
                "the model does not define a greatest text length: max_tokens is needed"
            )
        return min(known)
    if not smallest <= wanted <= (largest or wanted):
        raise InvalidArgumentError(
            f"max_tokens {wanted} is out of range: this model takes {smallest} to "
            f"{largest or 'any number'}"
        )
    return wanted


def truncating_tokenizer(tokenizer: Any, max_tokens: int) -> Any:
    """A copy of a tokenizer that truncates to `max_tokens` and never pads.

    It is of the library tokenizers. Of a pair, it truncates the longer text first.
    """
    from tokenizers import Tokenizer

    backend = Tokenizer.from_str(getattr(tokenizer, "backend_tokenizer", tokenizer).to_str())
    backend.no_padding()
    side = getattr(tokenizer, "truncation_side", "right")
    backend.enable_truncation(max_tokens, direction=side)
    return backend


def _check_modules(folder: Path) -> None:
    """Refuse custom modules: Sentence Transformers would run their code from a local folder."""
    path = folder / "modules.json"
    try:
        modules = [(module["type"], module["path"]) for module in read_json(path)]
    except (TypeError, KeyError) as error:
        raise ModelError(f"{path} is not a list of modules") from error
    for kind, place in modules:
        package, _, name = kind.rpartition(".")
        known = package.partition(".")[0] == "sentence_transformers" and name in _MODULES
        if not known and kind not in own_modules():
            raise ModelError(f"{folder} has a module {kind}, but only {_listed()} are supported")
        if name == "Dense":
            # The library replaces any other activation by its default.
            activation = read_json(folder / place / "config.json").get("activation_function", "")
            if activation and not activation.startswith("torch.nn.modules."):
                raise ModelError(
                    f"{folder / place} has the activation {activation}, but only activations "
                    "of torch.nn.modules are supported"
                )


def _listed() -> str:
    return ", ".join(sorted(_MODULES | own_modules()))


def _check_encoder(folder: Path, model: "SentenceTransformer") -> None:
    names = [type(module).__name__ for module in model]
    pooled = names[:1] == ["Transformer"] and any(map(is_pooling, list(model)[1:2]))
    if not pooled and names not in ([MODULE], [MODULE, "Normalize"]):
        raise ModelError(
            f"{folder} is made of {' → '.join(names)}, but Transformer → Pooling → … or {MODULE} "
            "is expected"
        )
    if any(prompts_of(model).values()) and pooled and not model[1].include_prompt:
        raise ModelError(f"{folder} leaves its prompts out of the pooling, which is not supported")


def prompts_of(model: "SentenceTransformer") -> dict[Role, str]:
    """The prompts before queries and before passages, empty if there is none.

    An empty prompt counts as none. Sentence Transformers adds empty ones named "query" and
    "document" to each model, and so overlooks prompts that are named "passage".
    """
    prompts = model.prompts
    default = prompts.get(model.default_prompt_name or "") or ""
    of_passages = (prompts.get(name) for name in ("document", "passage", "corpus"))
    passage = next(filter(None, of_passages), default)
    return {"query": prompts.get("query") or default, "passage": passage}


def _check_weights(folder: Path, model: "SentenceTransformer", *, trust_remote_code: bool) -> None:
    """Refuse a checkpoint that lacks weights. The library would use random ones."""
    transformer = type(model[0].auto_model)
    _, report = transformer.from_pretrained(
        str(folder),
        trust_remote_code=trust_remote_code,
        local_files_only=True,
        output_loading_info=True,
    )
    missing = [name for name in sorted(report["missing_keys"]) if not is_pooler(name)]
    if missing or report["mismatched_keys"]:
        example = missing[0] if missing else next(iter(report["mismatched_keys"]))[0]
        raise ModelError(
            f"{folder} lacks {len(missing) or len(report['mismatched_keys'])} of the weights of a "
            f"{transformer.__name__}, such as {example}"
        )


def _num_positions(model: "SentenceTransformer") -> int | None:
    """The number of positions that the model has embeddings for, or None if it has no bound."""
    from torch import nn

    for module in model[0].auto_model.modules():
        table = getattr(module, "position_embeddings", None)
        if isinstance(table, nn.Embedding):
            # RoBERTa and related models start positions after the position of the padding.
            padding = getattr(module, "padding_idx", None)
            return table.num_embeddings - (padding + 1 if isinstance(padding, int) else 0)
    return getattr(model[0].auto_model.config, "max_position_embeddings", None)
