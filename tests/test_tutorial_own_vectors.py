"""The commands of the tutorial on vectors made elsewhere, run as they stand."""

import json
import os
import re
import shlex
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.serving import served_by

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "tutorial-own-vectors.md").read_text("utf-8")
FOLDER, *STEPS, SERVE, CURL = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
(PROGRAM,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "PYTHONPATH": f"{ROOT}",
}


@pytest.mark.soak
def test_its_commands_adopt_learn_compare_and_serve(tmp_path: Path) -> None:
    (tmp_path / "vectors.py").write_text(PROGRAM)
    steps = subprocess.run(
        ["bash", "-euc", f"{FOLDER}python ../../vectors.py\n{''.join(STEPS)}"],
        cwd=tmp_path, env=ENVIRONMENT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert steps.returncode == 0, steps.stderr
    by_words, by_meaning = steps.stdout.split("use it", 1)
    assert "gzip" in by_words
    assert "lzma" in by_meaning
    assert "milliseconds to encode a query" in by_meaning
    serve = shlex.split(SERVE.replace("8080", "0"))
    with served_by(serve, cwd=tmp_path / "runs" / "own-vectors", env=ENVIRONMENT) as address:
        body = shlex.split(CURL)[-1].encode()
        with urllib.request.urlopen(f"{address}/search", data=body) as answer:
            timing, found = answer.headers["Server-Timing"], json.load(answer)
    assert "encode;dur=" in timing
    assert found["hits"][0]["document_id"] in {"bz2", "gzip", "lzma", "tarfile", "zipfile"}
