"""A checkpoint on disk or on the hub to a torch encoder that is ready for export."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from export.errors import ExportError
from export.quiet import quiet
from retrieval.errors import InvalidArgumentError
from retrieval.extras import extra

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

PoolingMode = Literal["mean", "cls"]

_MODULES = {"Transformer", "Pooling", "Dense", "LayerNorm", "Dropout", "Normalize"}
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
# The same weights in other formats, often larger than the weights.
_NOT_NEEDED = ["*.onnx", "*.onnx_data", "*.h5", "*.msgpack", "*.ot", "*.tflite", "openvino/*"]


@dataclass(frozen=True, slots=True)
class Source:
    """A torch encoder, Transformer → Pooling → … → Normalize, and how it reads text.

    `tokenizer_json` truncates to `max_tokens`, special tokens included, and never pads.
    """

    model: "SentenceTransformer"
    name: str
    tokenizer_json: str
    max_tokens: int
    pooling: str
    dim: int


def load_source(
    model: str | Path, *, pooling: PoolingMode | None = None, max_tokens: int | None = None
) -> Source:
    """Load a Sentence Transformers directory, or any Hugging Face checkpoint with `pooling`.

    `model` is a directory or a name on the hub. A model that does not normalise its embeddings
    does so from here on. `max_tokens` defaults to what the model itself says. No code that comes
    with a model is ever run.

    :raises InvalidArgumentError: When there is no such model, `pooling` is missing or contradicts
        the model, or `max_tokens` is out of range.
    :raises ExportError: When the model cannot be loaded, needs code of its own, lacks weights, is
        no text encoder of the kind above, or has no fast tokenizer.
    """
    with extra("export"), quiet():
        import sentence_transformers  # noqa: F401 - so that its absence is told before the rest
    folder = _find(model)
    with quiet():
        if (folder / "modules.json").is_file():
            encoder = _load_sentence_transformer(folder, pooling)
        else:
            encoder = _load_checkpoint(folder, pooling)
        tokenizer = _fast_tokenizer(folder, encoder)
        chosen = _choose_max_tokens(encoder, tokenizer, max_tokens)
        encoder.max_seq_length = chosen
        return Source(
            model=encoder.eval(),
            name=folder.resolve().name if Path(model).is_dir() else str(model),
            tokenizer_json=_truncating(tokenizer, chosen),
            max_tokens=chosen,
            pooling=_pooling_of(encoder),
            dim=int(_embedding_dimension(encoder)),
        )


def _find(model: str | Path) -> Path:
    folder = Path(model)
    if folder.is_dir():
        return folder
    if folder.exists():
        raise InvalidArgumentError(f"{model} is a file; a model's directory is expected")
    if not _HUB_NAME.fullmatch(str(model)):
        raise InvalidArgumentError(f"{model} does not exist")
    from huggingface_hub import snapshot_download

    try:
        with quiet():
            return Path(snapshot_download(str(model), ignore_patterns=_NOT_NEEDED))
    except Exception as error:  # the hub's client lets through what its HTTP client raises
        raise InvalidArgumentError(
            f"{model} is no directory, and no model of this name can be had from the hub: "
            f"{_first_line(error)}"
        ) from error


def _load_sentence_transformer(folder: Path, pooling: PoolingMode | None) -> "SentenceTransformer":
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize

    _check_modules(folder)
    try:
        model = SentenceTransformer(
            str(folder),
            device="cpu",
            trust_remote_code=False,
            local_files_only=True,
            model_kwargs=_model_arguments(),
        )
    except Exception as error:  # whatever a broken checkpoint makes the libraries raise
        raise ExportError(f"{folder} cannot be loaded: {_first_line(error)}") from error
    names = [type(module).__name__ for module in model]
    if names[:2] != ["Transformer", "Pooling"]:
        raise ExportError(
            f"{folder} is made of {' → '.join(names)}, but Transformer → Pooling → … is expected"
        )
    own = _pooling_of(model)
    if pooling is not None and pooling != own:
        raise InvalidArgumentError(f"pooling {pooling!r} contradicts {folder}, which has {own!r}")
    if model.default_prompt_name is not None:
        raise ExportError(
            f"{folder} puts the prompt {model.default_prompt_name!r} before every text, which is "
            "not supported"
        )
    if names[-1] != "Normalize":
        model.append(Normalize())
    _check_weights(folder / _read_json(folder / "modules.json")[0]["path"], model)
    return model


def _load_checkpoint(folder: Path, pooling: PoolingMode | None) -> "SentenceTransformer":
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    if not (folder / "config.json").is_file():
        raise InvalidArgumentError(f"{folder} has neither modules.json nor config.json: no model")
    if pooling is None:
        raise InvalidArgumentError(
            f"{folder} does not say how its token embeddings are pooled: pass --pooling mean or "
            "--pooling cls"
        )
    try:
        transformer = Transformer(
            str(folder),
            model_kwargs={**_model_arguments(), "trust_remote_code": False},
            config_kwargs={"trust_remote_code": False},
        )
    except Exception as error:  # whatever a broken checkpoint makes the libraries raise
        raise ExportError(f"{folder} cannot be loaded: {_first_line(error)}") from error
    width = transformer.get_embedding_dimension()
    model = SentenceTransformer(
        modules=[transformer, Pooling(width, pooling), Normalize()], device="cpu"
    )
    _check_weights(folder, model)
    return model


def _model_arguments() -> dict[str, Any]:
    import torch

    # The plain form of attention is the one that ONNX Runtime's optimiser recognises.
    return {"attn_implementation": "eager", "dtype": torch.float32}


def _check_modules(folder: Path) -> None:
    """Refuse modules of the model's own: Sentence Transformers runs them if the folder is local."""
    path = folder / "modules.json"
    try:
        modules = [(module["type"], module["path"]) for module in _read_json(path)]
    except (TypeError, KeyError) as error:
        raise ExportError(f"{path} is not a list of modules") from error
    for kind, place in modules:
        package, _, name = kind.rpartition(".")
        if package.partition(".")[0] != "sentence_transformers" or name not in _MODULES:
            raise ExportError(f"{folder} has a module {kind}, but only {_listed()} are supported")
        if name == "Dense":
            # Any other name is replaced by the default activation, with a warning at best.
            activation = _read_json(folder / place / "config.json").get("activation_function", "")
            if activation and not activation.startswith("torch.nn.modules."):
                raise ExportError(
                    f"{folder / place} has the activation {activation}, but only those of "
                    "torch.nn.modules are supported"
                )


def _listed() -> str:
    return ", ".join(sorted(_MODULES))


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ExportError(f"{path} cannot be read as JSON: {_first_line(error)}") from error


def _check_weights(folder: Path, model: "SentenceTransformer") -> None:
    """Refuse a checkpoint that lacks weights, in whose place the library puts random ones."""
    transformer = type(model[0].auto_model)
    _, report = transformer.from_pretrained(
        str(folder), trust_remote_code=False, local_files_only=True, output_loading_info=True
    )
    missing = [name for name in sorted(report["missing_keys"]) if not is_pooler(name)]
    if missing or report["mismatched_keys"]:
        example = missing[0] if missing else report["mismatched_keys"][0][0]
        raise ExportError(
            f"{folder} lacks {len(missing) or len(report['mismatched_keys'])} of the weights of a "
            f"{transformer.__name__}, such as {example}"
        )


def is_pooler(name: str) -> bool:
    """Whether a weight belongs to BERT's own pooler, which no embedding depends on."""
    return name.startswith("pooler.")


def _fast_tokenizer(folder: Path, model: "SentenceTransformer") -> Any:
    tokenizer = model.tokenizer
    if not getattr(tokenizer, "is_fast", False):
        raise ExportError(
            f"{folder} has only a slow tokenizer ({type(tokenizer).__name__}), but a fast one, "
            "which has a tokenizer.json, is needed"
        )
    return tokenizer


def _choose_max_tokens(model: "SentenceTransformer", tokenizer: Any, wanted: int | None) -> int:
    smallest = tokenizer.num_special_tokens_to_add() + 1
    largest = _num_positions(model)
    own = model.max_seq_length
    if wanted is None:
        known = [bound for bound in (own, largest) if bound is not None and bound < 10**6]
        if not known:
            raise InvalidArgumentError(
                "the model does not say how long a text may be: --max-tokens"
            )
        return min(known)
    if not smallest <= wanted <= (largest or wanted):
        raise InvalidArgumentError(
            f"max_tokens {wanted} is out of range: this model takes {smallest} to "
            f"{largest or 'any number'}"
        )
    return wanted


def _num_positions(model: "SentenceTransformer") -> int | None:
    """How many tokens the model has positions for, or None where it sets no bound."""
    from torch import nn

    for module in model[0].auto_model.modules():
        table = getattr(module, "position_embeddings", None)
        if isinstance(table, nn.Embedding):
            # RoBERTa and its kin count positions from behind that of the padding.
            padding = getattr(module, "padding_idx", None)
            return table.num_embeddings - (padding + 1 if isinstance(padding, int) else 0)
    return getattr(model[0].auto_model.config, "max_position_embeddings", None)


def _truncating(tokenizer: Any, max_tokens: int) -> str:
    from tokenizers import Tokenizer

    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_padding()
    backend.enable_truncation(max_tokens, direction=tokenizer.truncation_side)
    serialised: str = backend.to_str()
    return serialised


def _pooling_of(model: "SentenceTransformer") -> str:
    mode = model[1].pooling_mode
    return mode if isinstance(mode, str) else "+".join(mode)


def _embedding_dimension(model: "SentenceTransformer") -> int:
    dimension = model.get_embedding_dimension()
    if dimension is None:
        raise ExportError("the model does not say how wide its embeddings are")
    return int(dimension)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".:")
