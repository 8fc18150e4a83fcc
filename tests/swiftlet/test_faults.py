"""Commands without a free descriptor, and on a disk that takes no more, end with one sentence.

They leave nothing that is half written, and succeed once the cause is gone.
"""

import resource
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

import swiftlet
from swiftlet.encoders.reranker import OnnxReranker
from swiftlet.evaluation.weight import reset_weight
from swiftlet.integrations.mcp import mcp_server
from swiftlet.search.request import DEFAULT_WEIGHT
from tests.artefacts.answers import FOLDER
from tests.descriptors import only_more_descriptors

QUERY = "snow and salt of the sea"


def export_parquet(folder: Path) -> None:
    swiftlet.export_vectors(folder / "changed", folder / "out.parquet", overwrite=True)
    assert (folder / "out.parquet").stat().st_size > 10_000


def reset(folder: Path) -> None:
    assert reset_weight(folder / "words") == DEFAULT_WEIGHT


def rerank(folder: Path) -> None:
    assert 0 < OnnxReranker.load(folder / "reranker").score(QUERY, "salt") < 1


def serve_tools(folder: Path) -> None:
    with swiftlet.open(folder / "changed", encoder=folder / "encoder") as searcher:
        assert mcp_server(searcher)


def encode_shard(folder: Path) -> None:
    corpus = [{"id": name, "text": f"{name} salt " * 20} for name in "abcd"]
    options: dict[str, Any] = {"passage_tokens": 24, "overlap_tokens": 0, "overwrite": True}
    encoder = folder / "encoder"
    swiftlet.encode(corpus, folder / "shard", shard=(1, 2), encoder=encoder, **options)


COMMANDS = [export_parquet, reset, rerank, serve_tools, encode_shard]
WRITING = [export_parquet, reset, encode_shard]


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


def num_refused(
    command: Callable[[Path], None], folder: Path, limits: Iterable[AbstractContextManager[None]]
) -> int:
    """How often the command is refused; each time it leaves nothing, and then succeeds."""
    command(folder)  # all modules are loaded
    before, refused = content(folder), 0
    for limit in limits:
        said = ""
        try:
            with limit:
                command(folder)
        except swiftlet.RetrievalError as error:
            said = f"{error}"
        assert said.isprintable()
        assert content(folder) == before, said
        if said:
            refused += 1
            command(folder)
    return refused


@pytest.fixture
def folder(tmp_path) -> Path:
    return Path(shutil.copytree(FOLDER, tmp_path / "artefacts"))


@pytest.mark.check
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_descriptors_ends_with_a_sentence_and_works_again(command, folder):
    assert num_refused(command, folder, map(only_more_descriptors, (0, 1, 2, 3, 5, 8)))


@pytest.mark.check
@pytest.mark.parametrize("command", WRITING)
def test_a_command_whose_files_cannot_grow_ends_with_a_sentence_and_works_again(command, folder):
    assert num_refused(command, folder, map(files_of_at_most, (0, 1, 300, 2_000)))
