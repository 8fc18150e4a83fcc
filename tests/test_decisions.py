"""docs/decisions/: each decision has a heading of its own, a date and a status."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted((DOCS / "decisions").glob("*.md"))
STATUS = r"\*20\d\d-\d\d-\d\d, (accepted|superseded by \[[^]]+\]\([^)]*#[^)]+\))\.\*"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_decision_has_a_date_and_a_status_below_its_heading(page):
    decisions = page.read_text("utf-8").split("\n## ")[1:]
    assert decisions
    for decision in decisions:
        heading, status, reasons = decision.split("\n\n", maxsplit=2)
        assert re.fullmatch(STATUS, " ".join(status.split())), heading
        assert reasons.strip(), heading


def test_no_two_decisions_have_the_same_heading():
    headings = [line for page in PAGES for line in page.read_text("utf-8").splitlines()
                if line.startswith("## ")]  # fmt: skip
    assert len(headings) == len(set(headings))


def test_the_page_of_decisions_links_to_every_room_and_has_no_decision():
    page = (DOCS / "decisions.md").read_text("utf-8")
    assert sorted(re.findall(r"\(decisions/(\w+\.md)\)", page)) == [each.name for each in PAGES]
    assert not re.search(r"^\*\*", page, re.MULTILINE), "put the decision into a room"
