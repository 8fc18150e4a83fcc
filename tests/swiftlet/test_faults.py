"""The encoding of a shard without a free descriptor, and on a disk that takes no more.

It ends with one sentence, leaves nothing that is half written, and succeeds once the cause is gone.
The walk of tests/crashes strikes all other commands.
"""

import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

import swiftlet
from tests.artefacts.answers import FOLDER
from tests.descriptors import only_more_descriptors


def encode_shard(folder: Path) -> None:
    corpus = [{"id": name, "text": f"{name} salt " * 20} for name in "abcd"]
    options: dict[str, Any] = {"passage_tokens": 24, "overlap_tokens": 0, "overwrite": True}
    encoder = folder / "encoder"
    swiftlet.encode(corpus, folder / "shard", shard=(1, 2), encoder=encoder, **options)


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def content(folder: Path) -> set[Path]:
    """All files, without those that a read makes, or an interrupted build goes on with."""
    files = {each.relative_to(folder) for each in folder.rglob("*") if each.is_file()}
    return {each for each in files if not each.name.endswith(("-shm", "-wal"))
            and not each.parts[0].startswith(".")}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER, tmp_path / "artefacts"))


@pytest.mark.check
@pytest.mark.parametrize("limit", [only_more_descriptors, files_of_at_most])
@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_shard_that_cannot_be_written_ends_with_a_sentence_and_works_again(
    limit: Callable[[int], AbstractContextManager[None]], number: int, folder: Path
) -> None:
    encode_shard(folder)  # all modules are loaded
    before = content(folder)
    with pytest.raises(swiftlet.RetrievalError) as refused, limit(number):
        encode_shard(folder)
    assert f"{refused.value}".isprintable()
    assert content(folder) == before
    encode_shard(folder)
