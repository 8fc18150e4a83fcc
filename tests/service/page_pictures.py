"""Draws the pictures of docs/page.md from a service of `make demo` in Chromium.

python tests/service/page_pictures.py http://127.0.0.1:8080 docs
"""

import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

QUERY = "/?q=the+most+common+elements+of+a+list"
DESKTOP = {"viewport": {"width": 1280, "height": 860}}
PHONE = {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2, "is_mobile": True}
COLOURS = 255


def hits(page: Page) -> None:
    """The hits, once the service has answered the query before, as it does in use."""
    page.locator(".hit").first.wait_for()
    page.reload()
    page.locator(".hit").first.wait_for()
    page.locator("#facets input").first.wait_for(state="attached")


def start(page: Page) -> None:
    """The page before a query."""
    page.locator("#home-link").click()
    page.locator("#examples a").first.wait_for()


def reasons(page: Page) -> None:
    """The hits, with the reasons of the first one."""
    hits(page)
    page.locator(".why").first.click()
    page.locator(".reasons dd").first.wait_for()


def second_hit(page: Page) -> None:
    """The hits, with the focus moved to the second one by keys."""
    hits(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")


def document(page: Page) -> None:
    """The document of the first hit at its passage."""
    hits(page)
    page.locator(".hit a").first.click()
    page.locator("#passage").wait_for()


def similar(page: Page) -> None:
    """The beginning of that document, with similar ones."""
    document(page)
    page.locator("#similar summary").click()
    page.locator("#similar a").first.wait_for()
    page.locator("#home-link").scroll_into_view_if_needed()


PICTURES = {
    "page-start": (DESKTOP, start),
    "page-desktop": (DESKTOP, reasons),
    "page-desktop-dark": ({**DESKTOP, "color_scheme": "dark"}, second_hit),
    "page-document": (DESKTOP, document),
    "page-phone": ({**PHONE, "has_touch": True}, hits),
    "page-phone-document": ({**PHONE, "has_touch": True, "color_scheme": "dark"}, similar),
}


def draw(address: str, folder: Path) -> None:
    """Draw every picture into `folder`."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, (options, prepare) in PICTURES.items():
            page = browser.new_context(**options).new_page()
            page.goto(address + QUERY)
            prepare(page)
            path = folder / f"{name}.png"
            page.screenshot(path=path, animations="disabled")
            Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)
        browser.close()


if __name__ == "__main__":
    draw(sys.argv[1], Path(sys.argv[2]))
