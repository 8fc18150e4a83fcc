"""The folder of a model, and what it is: found out without torch, before the model is loaded."""

import json
import re
from pathlib import Path
from typing import Any

from swiftlet import encoders
from swiftlet.encoders.reranker import KIND as RERANKER
from swiftlet.errors import InvalidArgumentError
from swiftlet.manifest import FILE_NAME, read_manifest
from training.model.errors import ModelError
from training.model.quiet import quiet
from training.model.trained import refuse_run, trained_encoder

MODULES, ROUTER_CONFIG = "modules.json", "router_config.json"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
# The same weights in other formats, which are often larger.
_NOT_NEEDED = ["*.onnx", "*.onnx_data", "*.h5", "*.msgpack", "*.ot", "*.tflite", "openvino/*"]


def find_model(model: str | Path) -> Path:
    """The folder of `model`. If it is the name of a model on the hub, it is downloaded.

    :raises InvalidArgumentError: When there is none, or it is a re-ranker in ONNX, or a run.
    """
    if (folder := find_local(model)) is not None:
        return folder
    with quiet():
        from huggingface_hub import snapshot_download

        try:
            return Path(snapshot_download(str(model), ignore_patterns=_NOT_NEEDED))
        except Exception as error:  # the hub's client also raises the errors of its HTTP client
            raise InvalidArgumentError(
                f"{model} is no directory, and no model of this name can be had from the hub: "
                f"{first_line(error)}"
            ) from error


def find_local(model: str | Path) -> Path | None:
    """The folder of `model` on this machine; None if it may be the name of a model on the hub.

    Errors as `find_model`.
    """
    folder = encoders.find_shipped(Path(model))
    if folder.is_dir():
        refuse_run(folder)
        if (folder / FILE_NAME).is_file() and read_manifest(folder).kind == RERANKER:
            raise InvalidArgumentError(
                f"{folder} is an exported re-ranker, which can neither be trained nor exported "
                "again: name the model that it was exported from"
            )
        return folder
    if folder.exists():
        raise InvalidArgumentError(f"{model} is a file; a model's directory is expected")
    if not _HUB_NAME.fullmatch(str(model)):
        raise InvalidArgumentError(f"{model} does not exist")
    return None


def is_cross_encoder(folder: Path) -> bool:
    """Whether a folder has a transformer with a head for classification."""
    try:
        names = json.loads((folder / "config.json").read_bytes()).get("architectures") or ()
    except (OSError, ValueError, AttributeError):
        return False
    return any(str(name).endswith("ForSequenceClassification") for name in names)


def is_router(folder: Path) -> bool:
    """Whether a model has an encoder of queries and another one of documents."""
    if not (folder / MODULES).is_file() or not (folder / ROUTER_CONFIG).is_file():
        return False
    first, *_ = read_json(folder / MODULES)
    return str(first["type"]).endswith(".Router")


def is_exported(folder: Path) -> bool:
    """Whether `swiftlet export` wrote the directory."""
    return (folder / FILE_NAME).is_file() and read_manifest(folder).kind == "encoder"


def is_exported_lookup(folder: Path) -> bool:
    """Whether it did, and the encoder is a table of token vectors."""
    # A transformer reads an attention mask, too.
    return is_exported(folder) and read_manifest(folder).details["input_names"] == ["input_ids"]


def recorded_space(model: str | Path) -> str | None:
    """The embedding space that an export or a training run has recorded for an encoder, if any.

    Errors as `trained_encoder`.
    """
    folder = encoders.find_shipped(Path(model))
    if is_exported(folder):
        return read_manifest(folder).embedding_space
    trained = trained_encoder(model)
    return None if trained is None else trained.embedding_space


def read_json(path: Path) -> Any:
    """What a JSON file of a model has.

    :raises ModelError: When it cannot be read.
    """
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as JSON: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """The first line of an error, for a sentence."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".:")
