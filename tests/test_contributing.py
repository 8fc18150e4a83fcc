"""What CONTRIBUTING says of the rooms is what import-linter checks."""

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from measuring.house import MEASURING, imports
from measuring.walks import PACKAGES

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def test_the_table_of_rooms_has_the_floors_of_the_contract():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (floors,) = (each["layers"] for each in contracts if each["name"].startswith("One folder"))
    below = {f"swiftlet.{each.stem}" for each in ROOT.glob("swiftlet/[a-z]*.py")}
    assert {*floors.pop().split(" : ")} == below
    rooms = [room.strip() for floor in floors for room in re.split("[|:]", floor)]
    named = re.findall(r"^\| `([a-z_/]+)/` \|", PAGE, re.MULTILINE)
    found = [name.replace("/", ".") for name in named]
    assert found == [room for room in rooms if room != "swiftlet.__main__"]


def test_each_folder_of_the_packages_is_a_room():
    named = set(re.findall(r"^\| `([a-z_/]+)/` \|", PAGE, re.MULTILINE))
    folders = {f"swiftlet/{each.parent.name}" for each in ROOT.glob("swiftlet/*/__init__.py")}
    assert folders | {"service", "training", "export"} == named


def test_no_modules_import_each_other_in_a_circle_and_no_folders_each_other():
    assert set(imports(ROOT).values()) == {0}


@pytest.mark.parametrize(
    ("row", "rooms"),
    [
        ("lines outside tests", ["deploy", *PACKAGES, *MEASURING]),
        ("the rooms that measure", MEASURING),
        ("tests", ["tests"]),
    ],
)
def test_the_house_is_about_as_large_as_its_table_says(row, rooms):
    (said,) = re.findall(rf"^\| {row} \| [\d,]+ \| ([\d,]+) \|", PAGE, re.MULTILINE)
    files = chain(*((ROOT / room).rglob("*.py") for room in rooms))
    found = sum(file.read_bytes().count(b"\n") for file in files)
    assert int(said.replace(",", "")) == pytest.approx(found, rel=0.03)
