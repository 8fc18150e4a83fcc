"""Fixtures for the tests of training."""

import pytest
import torch

from tests.checkpoints import checkpoints
from tests.runs import collection, narrow

__all__ = ["checkpoints", "collection", "narrow"]


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    # Towers so small are no faster with more.
    torch.set_num_threads(1)
