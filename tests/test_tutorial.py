"""The tutorial's commands, run as they stand, on some of the pages that it indexes."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.serving import served_by

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
INSTALL, *STEPS, SERVE, CURL, DOCKER = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
CORPUS = ["changes.md", "glossary.md", "image.md", "search.md", "tutorial.md"]
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.mark.soak
def test_its_commands_index_distil_and_serve(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in CORPUS:
        shutil.copy(ROOT / "docs" / name, tmp_path / "docs")
    steps = subprocess.run(
        ["bash", "-euc", "".join(STEPS)],
        cwd=tmp_path, env=ENVIRONMENT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert steps.returncode == 0, steps.stderr
    assert "image.md" in steps.stdout
    assert "nDCG@10" in steps.stdout
    serve = shlex.split(SERVE.replace("8080", "0"))
    with served_by(serve, cwd=tmp_path / "runs" / "tutorial", env=ENVIRONMENT) as address:
        body = shlex.split(CURL)[-1].encode()
        with urllib.request.urlopen(f"{address}/search", data=body) as answer:
            found = json.load(answer)
    assert found["hits"][0]["document_id"] == "image.md"


@pytest.mark.check
def test_its_packages_are_those_of_the_tests() -> None:
    command = [sys.executable, "-m", *shlex.split(INSTALL)]
    offline = ["--no-index", "--no-build-isolation", "--dry-run", "--quiet"]
    found = subprocess.run(
        [*command, *offline], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
