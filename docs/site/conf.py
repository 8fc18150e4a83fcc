"""The site that `make docs` builds from the pages of docs/."""

import logging
import re
import subprocess
import sys
from pathlib import Path

from sphinx.application import Sphinx

import swiftlet

# accessible-pygments, which Furo needs, shows every message otherwise.
logging.getLogger("faiss").setLevel(logging.WARNING)

COMMANDS = Path(__file__).parents[2] / "build" / "commands.md"

project = html_title = "Swiftlet"
version = swiftlet.__version__
root_doc = "docs/README"
include_patterns = [
    "docs/**.md",
    "[CS]*.md",
    "swiftlet/encoders/*/README.md",
    "clients/*/README.md",
]
exclude_patterns = [".*", "build", "runs"]
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 4
autodoc_default_options = {"members": True, "member-order": "bysource"}
default_role = "literal"  # as the docstrings have it
maximum_signature_line_length = 80
html_theme = "furo"
html_extra_path = ["index.html"]
html_copy_source = html_show_copyright = False


def add_toctrees(_: Sphinx, page: str, source: list[str]) -> None:
    """The sections of the start page, and the last ones of two other pages, are the navigation."""
    last = slice(-1, None)
    sections = {"docs/README": slice(1, None), "docs/decisions": last, "docs/results/README": last}
    for section in source[0].split("\n## ")[sections.get(page, slice(0))]:
        title = section.partition("\n")[0]
        links = re.findall(r"\]\((.+?\.md)\)", section)
        source[0] += "\n".join(
            ["\n```{toctree}", ":hidden:", f":caption: {title}", "", *links, "```\n"]
        )


def setup(app: Sphinx) -> None:
    """Write the page of commands, and connect the navigation."""
    COMMANDS.parent.mkdir(exist_ok=True)
    command = ["typer", "swiftlet.cli.main", "utils", "docs", "--name", "swiftlet"]
    pages = subprocess.run([sys.executable, "-m", *command], check=True, stdout=subprocess.PIPE)
    COMMANDS.write_bytes(pages.stdout)
    app.connect("source-read", add_toctrees)
