"""The site that `make docs` builds: complete, and without another host at view time."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import typer.main
from playwright.sync_api import expect

from swiftlet.cli.main import app

pytestmark = pytest.mark.check

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built as strictly as by `make docs`."""
    out = tmp_path_factory.mktemp("site")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (arguments,) = re.findall(r"-m (sphinx .*) build/site\n", makefile)
    build = subprocess.run(
        [sys.executable, "-m", *arguments.split(), out],
        cwd=ROOT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert build.returncode == 0, build.stderr
    return out


class Loaded(HTMLParser):
    """Collects the addresses that a page loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.addresses: list[str | None] = []
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        name = {"link": "href"}.get(tag, "src")
        self.addresses += [value for key, value in attrs if key == name]


def test_no_page_loads_anything_from_another_host(site):
    pages = list(site.rglob("*.html"))
    addresses = [address for page in pages for address in Loaded(page).addresses]
    assert addresses
    assert [each for each in addresses if "//" in str(each)] == []
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", sheet.read_text("utf-8")), sheet


def test_its_search_finds_a_page_without_a_network(site, browser):
    page = browser.new_context(offline=True, viewport={"width": 1280, "height": 800}).new_page()
    page.goto((site / "index.html").as_uri())
    expect(page.get_by_role("heading", level=1)).to_contain_text("Swiftlet", timeout=100_000)
    page.get_by_placeholder("Search").fill("snapshot")
    page.keyboard.press("Enter")
    # Results come one after the other, and a link moves until all are there.
    expect(page.get_by_text("Search finished")).to_be_visible(timeout=100_000)
    page.get_by_role("main").get_by_role("link", name="Changing an index", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(
        "Changing an index", timeout=100_000
    )


def test_it_has_every_command(site):
    commands = (site / "docs" / "site" / "commands.html").read_text("utf-8")
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert [name for name in known if f'id="swiftlet-{name}"' not in commands] == []
