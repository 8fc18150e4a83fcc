"""The README's commands, run as they stand."""

import json
import os
import re
import shlex
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from swiftlet.cli.main import app
from tests.serving import served_by

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DOCUMENTS = {
    "medicine.md": "# Vaccines\n\nA weakened germ teaches the immune system.\n",
    "music.txt": "A violin is played with a bow.\n",
    "python.txt": "Counter.most_common lists the most common elements and their counts.\n",
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands_of(program: str) -> list[list[str]]:
    lines = "".join(blocks("sh")).splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.startswith(program)]


def shape(value: object) -> object:
    """The keys of an answer, without what differs from corpus to corpus."""
    if isinstance(value, dict):
        return {key: shape(entry) for key, entry in value.items() if key != "metadata"}
    return [shape(value[0])] if isinstance(value, list) else type(value)


@pytest.fixture
def corpus(tmp_path) -> Path:
    for name, text in DOCUMENTS.items():
        (tmp_path / "CORPUS").mkdir(exist_ok=True)
        (tmp_path / "CORPUS" / name).write_text(text)
    return tmp_path


def test_the_makefile_has_its_demo_and_its_tests():
    targets = [target for command in commands_of("make") for target in command[1:]]
    assert targets == ["demo", "test", "check", "image"]
    makefile = (ROOT / "Makefile").read_text()
    assert all(f"\n{target}:" in makefile for target in targets)


def test_there_is_one_tagline():
    tagline = re.findall(r"\*\*(.+?)\.\*\*", README)[0]
    files = ["pyproject.toml", "CITATION.cff", "Dockerfile", "docs/README.md"]
    for name in [*files, "swiftlet/__init__.py", "deploy/helm/swiftlet/Chart.yaml"]:
        assert (ROOT / name).read_text().count(tagline) == 1, name
    assert app.info.help == f"{tagline}."


@pytest.mark.parametrize(
    "page",
    [
        *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
        *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md")),
    ],
)
def test_every_page_that_a_page_links_to_is_there(page):
    links = re.findall(r"\]\(([^)# ]+)", (ROOT / page).read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not ((ROOT / page).parent / link).exists()] == []


def test_its_python_example_runs(tmp_path):
    (example,) = blocks("python")
    shown = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    assert "bees" in shown


@pytest.mark.check
def test_its_commands_index_search_and_serve_a_corpus(corpus):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    _, index, search, serve = commands_of("swiftlet")
    for command in (index, search):
        result = subprocess.run(
            command, cwd=corpus, env=environment, check=True, capture_output=True, text=True
        )
    assert "medicine.md" in result.stdout.splitlines()[0]
    serve[serve.index("--port") + 1] = "0"
    with served_by(serve, cwd=corpus, env=environment) as address:
        (curl,) = commands_of("curl")
        body = curl[curl.index("-d") + 1].encode()
        with urllib.request.urlopen(f"{address}/search", data=body) as answer:
            found = json.load(answer)
    assert found["hits"][0]["document_id"] == "python.txt"
    assert shape(found) == shape(json.loads(blocks("json")[0]))
