"""Models to export."""

from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules

from tests.checkpoints import checkpoints
from training.quiet import quiet

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
