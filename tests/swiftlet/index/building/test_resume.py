"""Builds in processes of their own that are killed, interrupted or run out of storage."""

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import sleep

import pytest

from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.index.building.build import build_index
from swiftlet.manifest import Manifest, load_manifest
from swiftlet.publication import working_directory
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document

PROGRAM = """
import resource, signal, sys
largest_file_bytes = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file_bytes, largest_file_bytes))
# Which who runs the tests in the background has taught them to ignore.
signal.signal(signal.SIGINT, signal.default_int_handler)
from swiftlet.__main__ import main
main()
"""
NUM_DOCUMENTS = 600
WORDS = """the river runs through a green valley where old mills once made paper and cloth for the
towns below while children played on stone bridges and boats carried coal salt and grain to sea"""


class Build:
    """`swiftlet index` in a process, with its output."""

    def __init__(
        self, corpus: Path, out: Path, *, largest_file_bytes: int = -1, language: str = "english"
    ) -> None:
        self._said = out.with_name("said.txt")
        self._embeddings = working_directory(out) / "embeddings.f32"
        program = [sys.executable, "-c", PROGRAM, str(largest_file_bytes)]
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                [
                    *program,
                    "index",
                    str(corpus),
                    "--out",
                    str(out),
                    "--overwrite",
                    "--threads",
                    "1",
                    "--language",
                    language,
                ],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env={**os.environ, "COLUMNS": "500", "NO_COLOR": "1"},
            )

    def poll_until(self, condition: Callable[[], object]) -> None:
        """Return when the condition holds, or the process has ended."""
        while not condition() and self.process.poll() is None:
            sleep(0.005)

    def encoded(self) -> int:
        """How many embeddings have been kept so far."""
        try:
            return self._embeddings.stat().st_size // (4 * 384)
        except FileNotFoundError:
            return 0

    def end(self) -> tuple[int, str]:
        """Exit status and output, which must have no traceback."""
        status = self.process.wait(60)
        said = self._said.read_text()
        self._said.unlink()
        assert "Traceback" not in said
        return status, said


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, shipped_encoder) -> Path:
    vocabulary = [word for word in WORDS.split() if shipped_encoder.tokenizer.count(word) == 1]
    choice = random.Random(0)
    path = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    with path.open("w") as file:
        for number in range(NUM_DOCUMENTS):
            text = " ".join(choice.choices(vocabulary, k=80))
            file.write(json.dumps({"_id": str(number), "text": text}) + "\n")
    return path


@pytest.fixture
def earlier(tmp_path) -> Manifest:
    """An existing index at the path of the next build."""
    return build_index(
        [Document("earlier", "An index that was there before.")],
        DEFAULT_ENCODER,
        tmp_path / "index",
    )


@pytest.fixture
def out(tmp_path, earlier) -> Path:
    return tmp_path / "index"


def assert_searchable(index: Path, manifest: Manifest) -> None:
    searcher = Searcher.open(index, DEFAULT_ENCODER)
    assert searcher.index_manifest == manifest
    assert [hit.document_id for hit in searcher.search("before").hits] == ["earlier"]
    searcher.close()


def test_an_interrupted_build_prints_one_sentence_and_keeps_its_embeddings(corpus, out, earlier):
    build = Build(corpus, out)
    build.poll_until(build.encoded)
    build.process.send_signal(signal.SIGINT)
    status, said = build.end()
    assert status == 130
    assert said.splitlines()[-1] == "swiftlet: interrupted"
    assert f"the embeddings so far are kept in {working_directory(out)}" in said
    assert 0 < build.encoded() < NUM_DOCUMENTS
    assert_searchable(out, earlier)


def test_a_build_interrupted_while_it_reads_leaves_nothing(tmp_path, out, earlier):
    pipe = tmp_path.with_name("pipe.jsonl")
    os.mkfifo(pipe)
    build = Build(pipe, out)
    with pipe.open("w") as file:
        file.write('{"_id": "1", "text": "The first and last line."}\n')
        file.flush()
        build.poll_until((working_directory(out) / "artefact").exists)
        build.process.send_signal(signal.SIGINT)
        status, said = build.end()
    pipe.unlink()
    assert status == 130
    assert said.splitlines()[-1] == "swiftlet: interrupted"
    assert "is kept" not in said
    assert [*tmp_path.iterdir()] == [out]
    assert_searchable(out, earlier)


@pytest.mark.check
def test_a_full_temporary_folder_is_reported_where_the_languages_are_found(corpus, out, earlier):
    status, said = Build(corpus, out, largest_file_bytes=1_000_000, language="auto").end()
    assert status == 2
    assert "temporary folder takes no file of 100 MB: File too large" in said.splitlines()[-1]
    assert_searchable(out, earlier)


@pytest.mark.check
@pytest.mark.parametrize(
    ("largest_file_bytes", "what"),
    # Of the hundred embeddings, 153,600 bytes, the index file is longer by its head.
    [(8_000, "documents.sqlite"), (100_000, "embeddings.f32"), (153_600, "index.faiss")],
)
def test_a_full_disk_is_reported_in_one_sentence_and_the_earlier_index_stays(
    corpus, tmp_path, out, earlier, largest_file_bytes, what
):
    part = tmp_path.with_name(f"{tmp_path.name}.jsonl")
    part.write_text("".join(corpus.read_text().splitlines(keepends=True)[:100]))
    status, said = Build(part, out, largest_file_bytes=largest_file_bytes).end()
    assert status == 2
    last = said.splitlines()[-1]
    assert re.fullmatch(rf"swiftlet: cannot write .*/{what}: (File too large|disk I/O error)", last)
    assert load_manifest(out, "index") == earlier
    assert_searchable(out, earlier)
    status, said = Build(part, out).end()
    assert status == 0
    assert ("going on after" in said) == (what != "documents.sqlite")
    part.unlink()
    assert [*tmp_path.iterdir()] == [out]
