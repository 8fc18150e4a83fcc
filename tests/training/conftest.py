"""Fixtures for the tests of training."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.checkpoints import checkpoints
from tests.runs import Make, collection, narrow, recipe, tiny_encoder
from training.recipes.settings import Recipe

__all__ = ["checkpoints", "collection", "narrow", "tiny_encoder"]


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    # Towers so small are no faster with more.
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def make(checkpoints, collection) -> Make:
    """Makes recipes for two tiny towers."""

    def make_recipe(
        *, query: str = "roberta", document: str = "bert", place: Path = collection, **settings: Any
    ) -> Recipe:
        return recipe(place, checkpoints[query], checkpoints[document], **settings)

    return make_recipe
