"""The artefacts that commit 37a26d1 made, in `tests/artefacts`, give the answers of 37a26d1."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.artefacts import answers

# One worker, so that the folder is copied once.
pytestmark = pytest.mark.xdist_group("earlier artefacts")

EXPECTED: dict[str, Any] = json.loads((answers.FOLDER / "expected.json").read_text("utf-8"))
# Another processor, or another version of a library, gives other last bits. In int8, such a bit
# may lead to the next integer.
IS_SAME_MACHINE = EXPECTED["machine"] == answers.machine()
TOLERANCE, INT8_TOLERANCE = (0.0, 0.0) if IS_SAME_MACHINE else (1e-5, 5e-3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A copy of the artefacts, since SQLite makes files in an index that is opened."""
    return Path(shutil.copytree(answers.FOLDER, tmp_path_factory.mktemp("earlier") / "artefacts"))


def check(found: object, expected: object, tolerance: float = TOLERANCE, place: str = "") -> None:
    """Compare two answers: scores within a tolerance, and everything else exactly."""
    if isinstance(expected, dict) and isinstance(found, dict):
        assert found.keys() == expected.keys(), place
        for name in expected:
            check(found[name], expected[name], tolerance, f"{place} / {name}")
    elif isinstance(expected, list) and isinstance(found, list | tuple):
        assert len(found) == len(expected), place
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            check(one, other, tolerance, f"{place} / {number}")
    elif isinstance(expected, float) and isinstance(found, float):
        assert found == pytest.approx(expected, rel=0, abs=tolerance), place
    else:
        assert found == expected, place


@pytest.mark.parametrize("name", answers.ENCODERS)
def test_encoders_give_the_same_embeddings(folder, name):
    found = answers.embeddings(folder, name)
    for precision, rows in EXPECTED["embeddings"][name].items():
        tolerance = TOLERANCE if precision.startswith("fp32") else INT8_TOLERANCE
        check(found.pop(precision), rows, tolerance, precision)
    assert not found


@pytest.mark.parametrize("name", EXPECTED["inspected"])
def test_inspect_says_the_same(folder, name):
    assert answers.inspected(folder, name) == EXPECTED["inspected"][name]


@pytest.mark.parametrize("name", answers.INDEXES)
def test_indexes_give_the_same_answers(folder, name):
    check(answers.of_index(folder, name), EXPECTED["indexes"][name])


@pytest.mark.parametrize("name", answers.CHANGED)
def test_a_merge_of_the_changes_gives_the_same_answers(folder, name):
    check(answers.merged(folder, name), EXPECTED["merged"][name])


def test_shards_are_joined_to_an_index_that_gives_the_same_answers(folder):
    check(answers.joined(folder), EXPECTED["joined"])


def test_the_service_gives_the_same_answers(folder):
    check(answers.over_http(folder), EXPECTED["http"])
