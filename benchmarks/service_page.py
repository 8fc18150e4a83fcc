"""docs/results/service.md, whose sections are written by several scripts."""

import re
from argparse import ArgumentParser, Namespace
from pathlib import Path

from processes import ROOT

PAGE = ROOT / "docs" / "results" / "service.md"
TITLE = "# The service\n"


def command_of(parser: ArgumentParser, arguments: Namespace) -> str:
    """How a script was called, but for `--out`; places on this machine go by their options."""
    words = ["python", f"benchmarks/{parser.prog}"]
    for name, value in vars(arguments).items():
        if name != "out" and value != parser.get_default(name):
            shown = name.upper() if isinstance(value, Path) else f"{value}"
            words += [f"--{name.replace('_', '-')}", shown]
    return " ".join(words)


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
