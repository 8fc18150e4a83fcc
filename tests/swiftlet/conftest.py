"""Shared fixtures: an index that a test may change."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def built(small_index: Path) -> Path:
    """The index that `index` copies; a module may have another one."""
    return small_index


@pytest.fixture
def index(built: Path, tmp_path: Path) -> Path:
    """A copy of the index `built`, which the test may change."""
    return Path(shutil.copytree(built, tmp_path / "index"))
