"""docs/results/service.md, whose sections are written by several scripts."""

import re
from pathlib import Path

TITLE = "# The service\n"


def write_section(page: Path, heading: str, text: str) -> None:
    """Put a section of the second level into `page`, in place of the one with that heading."""
    section = f"## {heading}\n\n{text.strip()}\n"
    content = page.read_text("utf-8") if page.exists() else TITLE
    there = re.compile(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    if there.search(content):
        content = there.sub(lambda _: f"{section}\n", content)
    else:
        content += f"\n{section}"
    page.write_text(f"{content.strip()}\n", "utf-8")
    print(section)
