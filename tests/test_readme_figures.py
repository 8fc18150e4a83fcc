"""The README's table of figures, against the raw figures of docs/results/."""

import json
import re
from pathlib import Path

import pytest

from loadtests.results import RESULTS, environment, page_of

ROOT = Path(__file__).parents[1]
TEMPLATE = RESULTS / "readme.md.j2"
# Digits of names and of settings, which no measurement changes.
NAMES = ["MiniLM-L6-v2", "nDCG@10", "recall@10", "passages of 128", r"published: 64\.51", "2 of 6"]
NAMES += ["query of 10", "int8", "fp32", "429", "p99"]


def cell(page: str, column: str, *row: str) -> str:
    """The cell of a table in a page of docs/results/, in the row that has the cells `row`."""
    head: list[str] = []
    for line in [*(RESULTS / page).read_text("utf-8").splitlines(), ""]:
        cells = [each.strip() for each in line.strip("|").split("|")] if "|" in line else []
        if not cells:
            head = []
        elif not head:
            head = cells
        elif column in head and set(row) <= set(cells):
            return cells[head.index(column)]
    raise AssertionError(f"{page} has no table with {column} and a row {row}")


def expected_rows() -> list[str]:
    raw = {file.stem: json.loads(file.read_text("utf-8")) for file in RESULTS.glob("*.json")}
    template = environment().from_string(TEMPLATE.read_text("utf-8"))
    return template.render(raw=raw, cell=cell).strip().splitlines()


def readme_rows() -> list[str]:
    section = (ROOT / "README.md").read_text("utf-8").split("## How good, how fast\n")[1]
    lines = section.split("\n## ")[0].splitlines()
    return [line for line in lines if line.startswith("| ") and line.strip("| ")]


def test_the_readme_has_the_figures_of_the_results() -> None:
    expected = expected_rows()
    assert readme_rows() == expected, "\n".join(["the rows are", *expected])


@pytest.mark.parametrize("row", TEMPLATE.read_text("utf-8").split("-%}")[-1].strip().splitlines())
def test_no_figure_of_the_table_is_typed_by_hand(row: str) -> None:
    text = re.sub(r"\{\{.*?\}\}|\{%.*?%\}", "", row)
    assert not re.search(r"\d", re.sub("|".join(NAMES), "", text)), text


@pytest.mark.parametrize("raw", sorted(RESULTS.rglob("*.json")), ids=lambda raw: raw.stem)
def test_every_page_is_made_of_its_raw_figures(raw: Path) -> None:
    page = raw.with_suffix(".md").read_text("utf-8")
    assert page == page_of(raw, json.loads(raw.read_text("utf-8")))
