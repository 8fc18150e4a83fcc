"""Shards of a corpus: encoded one by one, and put together to the index of the whole."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import sleep

import numpy as np
import pytest

import swiftlet
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER
from swiftlet.errors import ArtefactError, CorruptArtefactError, InvalidArgumentError
from swiftlet.manifest import read_manifest
from tests.command_line import refusal
from tests.command_line import swiftlet as command

QUERY = "how do volcanoes erupt"
OPTIONS = {"encoder": DEFAULT_QUERY_ENCODER, "passage_tokens": 32}


def write_corpus(path: Path, count: int) -> Path:
    """Documents of one to four passages."""
    lines = [
        {
            "_id": f"d{number}",
            "title": f"Title {number}",
            "text": f"Document {number} tells how volcano {number} erupts. " * (1 + number % 4),
            "metadata": {"number": number},
        }
        for number in range(count)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "corpus.jsonl", 23)


@pytest.fixture(scope="module")
def shards(corpus) -> Path:
    """A folder of three shards; read only."""
    folder = corpus.parent / "shards"
    for number in (1, 2, 3):
        swiftlet.encode(corpus, folder / f"{number}", shard=(number, 3), **OPTIONS)
    return folder


def test_shards_make_the_index_that_the_corpus_makes(corpus, shards, tmp_path):
    whole = swiftlet.build(corpus, tmp_path / "whole", facets=["number"], **OPTIONS)
    options = ("--from-shards", shards, "--facet", "number", "--encoder", DEFAULT_QUERY_ENCODER)
    result = command("index", *options, "--out", tmp_path / "together")
    assert result.exit_code == 0, result.output
    together = read_manifest(tmp_path / "together", "index")
    assert together.details == whole.details
    assert together.embedding_space == whole.embedding_space
    with (
        swiftlet.open(tmp_path / "whole", encoder=DEFAULT_QUERY_ENCODER) as first,
        swiftlet.open(tmp_path / "together", encoder=DEFAULT_QUERY_ENCODER) as second,
    ):
        for mode in first.modes:
            found, expected = (each.search(QUERY, 23, mode=mode).hits for each in (second, first))
            assert [hit.passage for hit in found] == [hit.passage for hit in expected]
            assert [hit.metadata for hit in found] == [hit.metadata for hit in expected]
            scores = [hit.score for hit in expected]
            assert [hit.score for hit in found] == pytest.approx(scores, abs=1e-5)


def test_half_precision_takes_half_and_finds_the_same(corpus, tmp_path):
    for half in (False, True):
        swiftlet.encode(corpus, tmp_path / f"{half}", shard=(1, 1), half=half, **OPTIONS)
    exact, rounded = (np.load(tmp_path / f"{half}" / "embeddings.npy") for half in (False, True))
    assert (exact.dtype, rounded.dtype) == (np.float32, np.float16)
    assert np.abs(exact - rounded).max() < 1e-3
    swiftlet.build(swiftlet.Shards([tmp_path / "True"]), tmp_path / "index", **OPTIONS)
    with swiftlet.open(tmp_path / "index", encoder=DEFAULT_QUERY_ENCODER) as searcher:
        assert len(searcher.search("volcano 7", 5).hits) == 5


@pytest.mark.check
def test_a_shard_that_was_killed_goes_on(tmp_path):
    corpus, out = write_corpus(tmp_path / "corpus.jsonl", 2000), tmp_path / "shard"
    words = ["encode", corpus, "--shard", "1/2", "--out", out, "--threads", "1"]
    process = subprocess.Popen([sys.executable, "-m", "swiftlet", *map(str, words)])
    embeddings = tmp_path / ".shard.partial" / "embeddings.f32"
    while not embeddings.is_file() or not embeddings.stat().st_size:
        assert process.poll() is None
        sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not out.exists()
    size = embeddings.stat().st_size
    assert size
    result = command(*words)
    assert result.exit_code == 0, result.output
    assert "shard 1/2, 1,000 documents" in result.stdout
    rows = np.load(out / "embeddings.npy")
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-3)
    assert not embeddings.exists()


def test_shards_that_do_not_belong_together_are_refused(corpus, shards, tmp_path):
    others = {
        "corpora": (write_corpus(tmp_path / "other.jsonl", 22), (3, 3), OPTIONS),
        "ways to split documents": (corpus, (3, 3), OPTIONS | {"passage_tokens": 40}),
        "numbers of shards": (corpus, (3, 4), OPTIONS),
        "encoders": (corpus, (3, 3), OPTIONS | {"encoder": DEFAULT_ENCODER}),
    }
    alike = [shards / "1", shards / "2"]
    for name, (place, shard, options) in others.items():
        swiftlet.encode(place, tmp_path / name, shard=shard, **options)
        with pytest.raises(InvalidArgumentError, match=f"are of different {name}"):
            swiftlet.Shards([*alike, tmp_path / name])
    with pytest.raises(
        InvalidArgumentError, match="of 3 shards, number 3 is missing: encode or name"
    ):
        swiftlet.Shards(alike)
    with pytest.raises(InvalidArgumentError, match="are the same shard: leave one of them out"):
        swiftlet.Shards([shards, shards / "2"])
    with pytest.raises(InvalidArgumentError, match="there is no shard in"):
        swiftlet.Shards([corpus.parent / "nowhere"])
    with pytest.raises(ArtefactError, match=r"the shards were encoded by .* name that encoder"):
        swiftlet.build(swiftlet.Shards([shards]), tmp_path / "index", encoder=DEFAULT_ENCODER)
    assert not (tmp_path / "index").exists()


def test_an_altered_shard_is_refused(corpus, tmp_path):
    swiftlet.encode(corpus, tmp_path / "shard", shard=(1, 1), **OPTIONS)
    with (tmp_path / "shard" / "embeddings.npy").open("r+b") as file:
        file.seek(200)
        file.write(b"\1")
    with pytest.raises(CorruptArtefactError, match=r"embeddings\.npy"):
        swiftlet.Shards([tmp_path])


def test_bad_arguments_are_refused_in_one_sentence(corpus, shards, tmp_path):
    for shard, sentence in (
        ("2", "--shard is '2', but one such as 2/8 is expected"),
        ("0/3", "there is no shard 0/3: name one of 1/3 to 3/3"),
        ("4/3", "there is no shard 4/3: name one of 1/3 to 3/3"),
        ("1/0", "there is no shard 1/0: name one such as 2/8, the second of eight"),
        ("30/30", "shard 30/30 has no document, since the corpus has only 23: take at most 23"),
    ):
        said = refusal(command("encode", corpus, "--shard", shard, "--out", tmp_path / "out"))
        assert sentence in said
        assert not (tmp_path / "out").exists()
    out = ("--out", tmp_path / "index")
    said = refusal(command("index", "--from-shards", shards, "--passage-tokens", 9, *out))
    assert "--passage-tokens is for a corpus, but shards are encoded already" in said
    for words in ((corpus, "--from-shards", shards), ()):
        assert "name either a corpus or --from-shards" in refusal(command("index", *words, *out))
    assert "exists" in refusal(command("encode", corpus, "--shard", "1/3", "--out", shards / "1"))


@pytest.mark.check
def test_schedulers_number_the_shards(corpus, tmp_path):
    script = Path(__file__).parents[4] / "deploy" / "shards" / "encode.sh"
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    words = [script, corpus, tmp_path / "shards", "3", "--encoder", DEFAULT_QUERY_ENCODER]
    for variables in ({"SLURM_ARRAY_TASK_ID": "1"}, {"JOB_COMPLETION_INDEX": "1"}, {"SHARD": "3"}):
        subprocess.run(words, env=os.environ | {"PATH": programs} | variables, check=True)
    shards = swiftlet.Shards([tmp_path / "shards"])
    assert len([*shards.documents()]) == 23
    without = subprocess.run(
        words, env={"PATH": programs}, capture_output=True, text=True, check=False
    )
    assert without.returncode != 0
    assert "set SHARD" in without.stderr
