"""Shared fixtures: an index that a test may change, bounds of memory and storage, an encoder."""

import gc
import re
import resource
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.manifest import describe_files, read_manifest, write_manifest


@pytest.fixture
def built(small_index) -> Path:
    """The index that `index` copies; a module may have another one."""
    return small_index


@pytest.fixture
def index(built, tmp_path) -> Path:
    """A copy of the index `built`, which the test may change."""
    return Path(shutil.copytree(built, tmp_path / "index"))


@pytest.fixture
def peak_megabytes() -> Callable[[Callable[[], object]], float]:
    """The largest growth of this process's resident memory while a function runs."""

    def measure(run: Callable[[], object]) -> float:
        gc.collect()
        process = Path("/proc/self")
        before = _status(process, "VmRSS")
        # Makes the peak start again from what is resident now.
        (process / "clear_refs").write_text("5")
        run()
        return (_status(process, "VmHWM") - before) / 1024

    return measure


@pytest.fixture
def storage_ends_at() -> Callable[[int], object]:
    """A context in which no file can grow beyond a number of bytes."""

    @contextmanager
    def limit(size_bytes: int) -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limit


@pytest.fixture
def altered_encoder(tmp_path) -> Callable[..., Path]:
    """Makes an encoder directory with a valid manifest of the one that ships, but for changes."""

    def alter(
        *, files: Mapping[str, str] = {}, without: Collection[str] = (), **changes: object
    ) -> Path:
        shipped = read_manifest(DEFAULT_ENCODER)
        directory = tmp_path / "encoder"
        directory.mkdir()
        for name in shipped.files:
            if name not in files and name not in without:
                (directory / name).symlink_to(DEFAULT_ENCODER / name)
        for name, content in files.items():
            (directory / name).write_text(content)
        present = [path.name for path in directory.iterdir()]
        manifest = replace(shipped, files=describe_files(directory, present))
        write_manifest(directory, replace(manifest, **changes))
        return directory

    return alter


def _status(process: Path, field: str) -> int:
    (kilobytes,) = re.findall(rf"{field}:\s+(\d+) kB", (process / "status").read_text())
    return int(kilobytes)
