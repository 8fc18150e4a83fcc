"""The promise of the base dependencies: a fresh environment without torch indexes and serves."""

import json
import os
import subprocess
import urllib.request
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.folder_up import first_of, up
from tests.polling import wait_until
from tests.serving import served_by

pytestmark = pytest.mark.check

ROOT = Path(__file__).parents[1]
CORPUS = [
    {"_id": "tea", "title": "Tea", "text": "Leaves are steeped in hot water for some minutes."},
    {"_id": "ski", "title": "Skiing", "text": "One slides down snowy slopes on two long boards."},
    {"_id": "tax", "title": "Taxes", "text": "Citizens pay a part of their income to the state."},
]
LEFT_OUT = ("torch", "transformers", "sentence_transformers", "optimum", "onnx", "scipy", "pytest")


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> Path:
    """The bin folder of a fresh virtual environment with the wheel and its base dependencies."""
    folder = tmp_path_factory.mktemp("base")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    run([*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT], folder)
    (wheel,) = folder.glob("*.whl")
    run([*pip, "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel], folder)
    return python.parent


@pytest.fixture(scope="module")
def index(environment, tmp_path_factory) -> Path:
    """An index made there by the command line with the encoder that the wheel carries."""
    folder = tmp_path_factory.mktemp("index")
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(document) + "\n" for document in CORPUS))
    run([environment / "swiftlet", "index", corpus, "--out", folder / "index"], folder)
    return folder / "index"


@pytest.fixture
def address(environment, index) -> Iterator[str]:
    """The address of a service that runs there."""
    command = [environment / "swiftlet", "serve", index, "--port", "0"]
    with served_by(command, env=clean()) as address:
        yield address


def test_the_environment_has_nothing_of_the_extras(environment):
    found = run(
        [environment / "python", "-c",
         f"from importlib.util import find_spec; print([n for n in {LEFT_OUT} if find_spec(n)])"],
        environment,
    )  # fmt: skip
    assert found.strip() == "[]"


@pytest.mark.parametrize(
    ("address", "client", "extra"),
    [
        ("milvus://localhost:1/papers", "grpc", "milvus"),
        ("postgresql://localhost:1/library/papers", "psycopg", "postgres"),
    ],
)
def test_an_address_names_the_extra_with_the_client_of_its_server(
    environment, address, client, extra
):
    command = [environment / "swiftlet", "search", address, "tea"]
    found = subprocess.run(command, check=False, capture_output=True, text=True, env=clean())
    assert found.returncode == 2
    assert f"the package '{client}' is not installed" in found.stderr
    assert f"'.[{extra}]'" in found.stderr


def test_it_searches_in_the_terminal(environment, index):
    found = run([environment / "swiftlet", "search", index, "a hot drink", "-k", "1"], index)
    assert found.split()[2] == "tea"


def test_it_has_the_typed_library(environment, index):
    code = f"""
from pathlib import Path
import swiftlet
assert (Path(swiftlet.__file__).parent / "py.typed").is_file()
with swiftlet.open({str(index)!r}) as searcher:
    print(searcher.search("a hot drink", top_k=1)[0].document_id)
"""
    assert run([environment / "python", "-c", code], index).strip() == "tea"


def test_it_serves_searches(address):
    with urllib.request.urlopen(f"{address}/search?q=winter+sport&top_k=2") as answer:
        hits = json.load(answer)["hits"]
    assert hits[0]["document_id"] == "ski"
    assert len(hits) == 2


@pytest.mark.parametrize("command", ["evaluate", "export", "index"])
def test_a_command_that_needs_an_extra_names_it(environment, index, command, tmp_path):
    (tmp_path / "queries.txt").write_text("a hot drink\n")
    (tmp_path / "qrels.tsv").write_text("1 0 tea 1\n")
    (tmp_path / "run.txt").write_text("1 Q0 tea 1 1.0 tag\n")
    arguments = {
        "evaluate": [
            index, "--queries", tmp_path / "queries.txt", "--qrels", tmp_path / "qrels.tsv",
            "--against", tmp_path / "run.txt",
        ],
        "export": [tmp_path, "--out", tmp_path / "encoder"],
        "index": [tmp_path, "--out", tmp_path / "index", "--adapt-queries"],
    }[command]  # fmt: skip
    result = subprocess.run(
        [environment / "swiftlet", command, *arguments],
        check=False, capture_output=True, text=True, env=clean(), cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 2
    extra = "evaluation" if command == "evaluate" else "export"
    assert f"'.[{extra}]'" in result.stderr
    assert "Traceback" not in result.stderr


def test_nothing_is_reported_to_anybody_and_nothing_written_to_the_home(
    environment, index, tmp_path
):
    """onnxruntime would report its use and keep a device id at home, unless CI is set."""
    variables = {name: value for name, value in clean().items() if name != "CI"}
    subprocess.run(
        [environment / "swiftlet", "search", index, "a hot drink"],
        check=True, capture_output=True, cwd=tmp_path, env={**variables, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_a_folder_searches_itself(environment, tmp_path):
    folder, cache = tmp_path / "folder", tmp_path / "cache"
    folder.mkdir()
    (folder / "tea.txt").write_text("Leaves are steeped in hot water for some minutes.")
    with up(folder, cache, environment / "swiftlet") as (_, address):
        assert first_of(address, "a+hot+drink") == "tea.txt"
        (folder / "ski.txt").write_text("One slides down snowy slopes on two long boards.")
        wait_until(lambda: first_of(address, "winter+sport") == "ski.txt")
    assert sorted(path.name for path in folder.iterdir()) == ["ski.txt", "tea.txt"]


def run(command: list[str | Path], folder: Path) -> str:
    """Standard output of a command that must succeed, outside the source tree."""
    result = subprocess.run(
        [str(word) for word in command], check=False, capture_output=True, text=True,
        cwd=folder.parent, env=clean(),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


def clean() -> dict[str, str]:
    """The environment variables without those that lead Python back to this source tree."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
