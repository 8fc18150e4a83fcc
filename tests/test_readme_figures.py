"""The overview of results and the README's table, against the raw figures of docs/results/."""

import json
import re
from pathlib import Path

import pytest

from measuring.results import FINISHED, OVERVIEW, RESULTS, overview, page_of

ROOT = Path(__file__).parents[1]
FIGURES = OVERVIEW.with_suffix(".md.j2").read_text("utf-8").split("\n## Every page")[0]
# Digits of names and of settings, which no measurement changes.
NAMES = ["MiniLM-L6-v2", "nDCG@10", "recall@10", "passages of 128", r"published: 64\.51", "2 of 6"]
NAMES += ["query of 10", "int8", "fp32", "429", "p99"]


def rows(page: str, heading: str) -> list[str]:
    """The rows of the table below a heading of a page."""
    section = page.split(f"## {heading}\n")[1].split("\n## ", maxsplit=1)[0]
    return [line for line in section.splitlines() if line.startswith("| ") and line.strip("| ")]


def test_the_overview_has_the_figures_of_the_results() -> None:
    assert OVERVIEW.read_text("utf-8") == overview(), "run python -m measuring.results"


def test_the_readme_has_the_first_table_of_the_overview() -> None:
    readme = (ROOT / "README.md").read_text("utf-8").replace("](docs/results/", "](")
    assert rows(readme, "How good, how fast") == rows(overview(), "In short")


@pytest.mark.parametrize("row", re.findall(r"^[|-] .*", FIGURES, re.MULTILINE))
def test_no_figure_of_the_overview_is_typed_by_hand(row: str) -> None:
    text = re.sub(r"\{\{.*?\}\}|\{%.*?%\}|\]\(.*?\)", "", row)
    assert not re.search(r"\d", re.sub("|".join(NAMES), "", text)), text


@pytest.mark.parametrize("page", sorted(RESULTS.rglob("*.md")), ids=lambda page: page.stem)
def test_the_overview_links_to_every_page(page: Path) -> None:
    assert page == OVERVIEW or f"]({page.relative_to(RESULTS)})" in overview()


@pytest.mark.parametrize("raw", sorted(RESULTS.rglob("*.json")), ids=lambda raw: raw.stem)
def test_every_page_is_made_of_its_raw_figures(raw: Path) -> None:
    """The figures of a finished measurement, or of an artefact, are linked by a page."""
    figures, page = json.loads(raw.read_text("utf-8")), raw.with_suffix(".md")
    if page.exists() and FINISHED not in figures:
        assert page.read_text("utf-8") == page_of(raw, figures)
        return
    name = f"]({raw.relative_to(RESULTS)})"
    (linking,) = (each for each in RESULTS.glob("*.md") if name in each.read_text("utf-8"))
    assert FINISHED not in figures or f"the tag `{figures[FINISHED]}` keeps" in (
        linking.read_text("utf-8").replace("The tag", "the tag")
    )
