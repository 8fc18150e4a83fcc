"""Models and exported encoders for the tests."""

from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules

from export.encoder_directory import export_encoder
from tests.checkpoints import checkpoints
from training.model.quiet import quiet

__all__ = ["checkpoints"]


@pytest.fixture(scope="session")
def projecting(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
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
def exported_bert(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The encoder directory of the tiny BERT in all precisions, int8 by default; read only."""
    out = tmp_path_factory.mktemp("encoders") / "bert"
    assert export_encoder(checkpoints["bert"], out, pooling="mean").details["precisions"] == [
        "fp32", "int8", "int8_static"
    ]  # fmt: skip
    return out
