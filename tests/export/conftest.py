"""Models and exported encoders for the tests."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules

from export.encoder_directory import export_encoder
from tests.checkpoints import checkpoints
from training.model.quiet import quiet

__all__ = ["checkpoints"]


class Exported(NamedTuple):
    """An encoder directory, and the model that it was made from."""

    model: Path
    pooling: str | None
    directory: Path


@pytest.fixture(scope="session")
def projecting(checkpoints, tmp_path_factory) -> Path:
    """A Sentence Transformers directory with Dense, and without Normalize; read only."""
    folder = tmp_path_factory.mktemp("models") / "projecting"
    torch.manual_seed(8)
    transformer = modules.Transformer(str(checkpoints["bert"]), max_seq_length=20)
    dense = modules.Dense(32, 16, activation_function=torch.nn.Tanh())
    with quiet():
        SentenceTransformer(
            modules=[transformer, modules.Pooling(32, "mean"), dense], device="cpu"
        ).save(str(folder))
    return folder


@pytest.fixture(scope="session")
def exported(checkpoints, projecting, tmp_path_factory) -> Callable[[str], Exported]:
    """The encoder directory of a tiny model in both precisions, made once; read only.

    The kind is an architecture, "cls" for a BERT of that pooling, or "projecting".
    """
    folder = tmp_path_factory.mktemp("encoders")

    @cache
    def make(kind: str) -> Exported:
        others = {"cls": (checkpoints["bert"], "cls"), "projecting": (projecting, None)}
        model, pooling = others.get(kind) or (checkpoints[kind], "mean")
        export_encoder(model, folder / kind, pooling=pooling)
        return Exported(model, pooling, folder / kind)

    return make


@pytest.fixture(scope="session")
def exported_bert(exported) -> Path:
    """The encoder directory of the tiny BERT in both precisions, int8 by default; read only."""
    return exported("bert").directory
