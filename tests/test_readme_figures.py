"""The overview of results and the README's figures, against the raw figures of docs/results/."""

import json
import re
from pathlib import Path

import pytest

from measuring.results import FINISHED, OVERVIEW, RESULTS, overview, page_of

ROOT = Path(__file__).parents[1]
MADE = overview()
FIGURES = OVERVIEW.with_suffix(".md.j2").read_text("utf-8").split("\n## Every page")[0]
# Digits of names and of settings, which no measurement changes.
NAMES = ["MiniLM-L6-v2", "nDCG@10", "recall@10", "passages of 128", r"published: 64\.51", "2 of 6"]
NAMES += ["query of 10", "int8", "fp32", "429", "p99"]

KEPT = {
    "papers-1": "The tag `papers-1` (commit 37a26d1) keeps the script",
    "4e5353c": "Commit 4e5353c keeps the script",
    "404af62": "Commit 404af62 keeps the script",
    "e49126d": "Commit e49126d keeps the script",
    "20a7eac8": "Commit 20a7eac8 keeps the script",
}
"""How a page names the revision that has its script, by what its raw figures say."""

README = (ROOT / "README.md").read_text("utf-8")
CLAIMS = [
    " ".join(claim.split())
    for part in README.split("\n\n")
    for claim in re.split(r"^- ", part, flags=re.MULTILINE)
    if re.search(r"docs/results/[a-z-]+\.md", claim)
]
"""The paragraphs and list items of the README with a link to a result."""


def numbers(text: str) -> set[str]:
    """The numbers in a text, without names and addresses that have digits."""
    text = re.sub("|".join([r"\]\(.*?\)", *NAMES]), "", text)
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


def test_the_overview_has_the_figures_of_the_results():
    assert OVERVIEW.read_text("utf-8") == MADE, "run python -m measuring.results"


@pytest.mark.parametrize("claim", CLAIMS)
def test_each_figure_of_the_readme_is_in_the_overview_with_the_same_page(claim):
    assert numbers(claim)
    pages = re.findall(r"docs/results/([a-z-]+\.md)", claim)
    rows = [row for row in MADE.splitlines() if any(f"]({page}" in row for page in pages)]
    assert numbers(claim) <= numbers(" ".join(rows))


@pytest.mark.parametrize("row", re.findall(r"^[|-] .*", FIGURES, re.MULTILINE))
def test_no_figure_of_the_overview_is_typed_by_hand(row):
    text = re.sub(r"\{\{.*?\}\}|\{%.*?%\}|\]\(.*?\)", "", row)
    assert not re.search(r"\d", re.sub("|".join(NAMES), "", text)), text


@pytest.mark.parametrize("page", sorted(RESULTS.rglob("*.md")), ids=lambda page: page.stem)
def test_the_overview_links_to_every_page(page):
    assert page == OVERVIEW or f"]({page.relative_to(RESULTS)})" in MADE


@pytest.mark.parametrize("raw", sorted(RESULTS.rglob("*.json")), ids=lambda raw: raw.stem)
def test_every_page_is_made_of_its_raw_figures(raw):
    """The figures of a finished measurement, or of an artefact, are linked by a page."""
    figures, page = json.loads(raw.read_text("utf-8")), raw.with_suffix(".md")
    if page.exists() and FINISHED not in figures:
        assert page.read_text("utf-8") == page_of(raw, figures)
        return
    name = f"]({raw.relative_to(RESULTS)})"
    (linking,) = (each for each in RESULTS.glob("*.md") if name in each.read_text("utf-8"))
    assert FINISHED not in figures or KEPT[figures[FINISHED]] in linking.read_text("utf-8")


@pytest.mark.parametrize("page", sorted(RESULTS.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_whose_script_is_gone_names_the_commit_before_the_command(page):
    text = page.read_text("utf-8")
    for command in re.finditer(r"python -m (\w+(?:\.\w+)+)", text):
        place = ROOT / command[1].replace(".", "/")
        here = place.with_suffix(".py").is_file() or (place / "__main__.py").is_file()
        before = text[: command.start()]
        assert here or any(each in before for each in KEPT.values()), command[0]
