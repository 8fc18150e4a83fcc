"""The pages repeat the noun where a pronoun would have to be looked up."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("[RS]*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("docs/decisions/*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_noun_stands_where_a_noun_is_meant(page):
    text = " ".join(page.read_text("utf-8").split())
    assert re.findall(r".{30}\b(?:th(?:at|ose) of|so many|such an?)\b.{20}", text) == []
