"""Options are declared once, where they are checked, and documented."""

from pathlib import Path

import pytest

from swiftlet.arguments import options_of
from swiftlet.evaluation.compression import Compression
from swiftlet.index.building.settings import BuildSettings
from swiftlet.search.request import SearchRequest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("settings", "page"),
    [
        (BuildSettings, "library.md"),
        (SearchRequest, "search.md"),
        (SearchRequest, "http.md"),
        (Compression, "evaluation.md"),
    ],
)
def test_every_option_is_in_the_table_of_its_page(settings, page):
    rows = [line.split("|")[1] for line in (DOCS / page).read_text().splitlines() if "|" in line]
    assert [name for name in options_of(settings) if f"`{name}`" not in "".join(rows)] == []
