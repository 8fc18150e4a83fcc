"""A disk that is soon full."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """An empty file system of one megabyte; a test that needs it is skipped without the right."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system can be mounted by the superuser only")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)
