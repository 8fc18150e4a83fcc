"""The commands of the tutorials, run as they stand, on some of the pages that they index."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.serving import served_by

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
INSTALL, *STEPS, SERVE, CURL, DOCKER = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
CORPUS = ["changes.md", "glossary.md", "image.md", "search.md", "tutorial.md"]
RELEVANCE = (ROOT / "docs" / "relevance.md").read_text("utf-8")
OWN_VECTORS = (ROOT / "docs" / "tutorial-own-vectors.md").read_text("utf-8")
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "PYTHONPATH": f"{ROOT}",
}


def said(steps: str, folder: Path) -> str:
    """What commands print in a folder."""
    ended = subprocess.run(
        ["bash", "-euc", steps],
        cwd=folder, env=ENVIRONMENT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def answer(serve: str, curl: str, folder: Path) -> tuple[str, Any]:
    """The times and the answer of a service that is started in a folder and asked."""
    command, body = shlex.split(serve.replace("8080", "0")), shlex.split(curl)[-1].encode()
    with (
        served_by(command, cwd=folder, env=ENVIRONMENT) as address,
        urllib.request.urlopen(f"{address}/search", data=body) as found,
    ):
        return found.headers["Server-Timing"], json.load(found)


@pytest.mark.soak
def test_its_commands_index_distil_and_serve(tmp_path):
    (tmp_path / "docs").mkdir()
    for name in CORPUS:
        shutil.copy(ROOT / "docs" / name, tmp_path / "docs")
    steps = said("".join(STEPS), tmp_path)
    assert "image.md" in steps
    assert "nDCG@10" in steps
    _, found = answer(SERVE, CURL, tmp_path / "runs" / "tutorial")
    assert found["hits"][0]["document_id"] == "image.md"


@pytest.mark.soak
def test_the_commands_on_own_vectors_adopt_learn_compare_and_serve(tmp_path):
    folder, *steps, serve, curl = re.findall(r"```sh\n(.*?)```", OWN_VECTORS, re.DOTALL)
    (program,) = re.findall(r"```python\n(.*?)```", OWN_VECTORS, re.DOTALL)
    (tmp_path / "vectors.py").write_text(program)
    printed = said(f"{folder}python ../../vectors.py\n{''.join(steps)}", tmp_path)
    by_words, by_meaning = printed.split("use it", 1)
    assert "gzip" in by_words
    assert "lzma" in by_meaning
    assert "milliseconds to encode a query" in by_meaning
    timing, found = answer(serve, curl, tmp_path / "runs" / "own-vectors")
    assert "encode;dur=" in timing
    assert found["hits"][0]["document_id"] in {"bz2", "gzip", "lzma", "tarfile", "zipfile"}


@pytest.mark.soak
def test_the_relevance_loop_goes_from_an_index_to_a_verdict_and_an_encoder(tmp_path):
    library, people = re.findall(r"```python\n(.*?)```", RELEVANCE, re.DOTALL)
    (tmp_path / "library.py").write_text(library)
    (tmp_path / "people.py").write_text(people)
    steps = re.findall(r"```sh\n(.*?)```", RELEVANCE, re.DOTALL)
    folder, index, log, report, pool, serve_pool, agreement, improve, publish = steps
    said(f"{folder}cp ../../*.py .\n{index}", tmp_path)
    folder = tmp_path / "runs" / "relevance"
    played(log, "search", folder)
    assert "Searches: 400" in said(report, folder)
    said(pool, folder)
    played(serve_pool, "judge", folder)
    assert "Program" in said(agreement, folder)
    assert re.search(r"report\.md: (publish|keep) ", said(improve, folder))
    assert "held-out queries" in (folder / "better" / "report.md").read_text("utf-8")
    timing, answered = answer(publish, CURL, folder)
    assert "encode;dur=" in timing
    assert answered["hits"]


def played(serve: str, part: str, folder: Path) -> None:
    """Run a part of the program that plays people, while a service runs in a folder."""
    *variables, command = (shlex.split(line) for line in serve.splitlines())
    given = dict(each.split("=") for (each,) in variables)
    words = [each.replace("$KEY", given.get("KEY", "")).replace("8080", "0") for each in command]
    own = [each for each in words if each.startswith("SWIFTLET_")]
    environment = {**ENVIRONMENT, **given, **dict(each.split("=", 1) for each in own)}
    with served_by(words[len(own) :], cwd=folder, env=environment) as address:
        program = [sys.executable, "people.py", part]
        subprocess.run(program, cwd=folder, env=environment | {"ADDRESS": address}, check=True)


@pytest.mark.check
def test_its_packages_are_those_of_the_tests():
    command = [sys.executable, "-m", *shlex.split(INSTALL)]
    offline = ["--no-index", "--no-build-isolation", "--dry-run", "--quiet"]
    found = subprocess.run(
        [*command, *offline], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
