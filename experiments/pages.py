"""Options and raw figures of experiments."""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loadtests.results import RESULTS, Figures


def parsed(parser: ArgumentParser) -> Namespace:
    """The options of a script, including the common ones."""
    parser.add_argument("--data", type=Path, help="folder with the collections in BEIR's layout")
    parser.add_argument("--results", type=Path, default=RESULTS, help="for page and raw figures")
    parser.add_argument(
        "--render", action="store_true", help="measure nothing, render the page from raw figures"
    )
    options = parser.parse_args()
    if options.data is None and not options.render:
        parser.error("--data is needed, unless --render is given")
    return options


def kept(path: Path, measure: Callable[[], Any]) -> Any:
    """Figures that are measured once, and later read from their file."""
    if not path.is_file():
        path.write_text(json.dumps(measure()))
    return json.loads(path.read_text("utf-8"))


def read_figures(path: Path) -> Figures:
    """Read raw figures."""
    figures: Figures = json.loads(path.read_text("utf-8"))
    return figures
