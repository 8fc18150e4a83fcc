"""docs/artefacts.md describes every kind of artefact that the code writes."""

import re
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "artefacts.md").read_text("utf-8")


def written() -> set[str]:
    """The kinds of all manifests that the packages make."""
    kinds = set()
    named = re.compile(r"(?:\bManifest\(\s*(?:kind=)?|check_target\([^)]*?kind=)(\"\w+\"|KIND\b)")
    for package in ("swiftlet", "training", "export"):
        for file in (ROOT / package).rglob("*.py"):
            for kind in named.findall(file.read_text("utf-8")):
                module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
                kinds.add(import_module(module).KIND if kind == "KIND" else kind.strip('"'))
    return kinds


def test_every_kind_of_artefact_is_in_the_list_and_has_a_section():
    (listed,) = re.findall(r"^`kind` \((.*?)\)", PAGE, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r'"(\w+)"', listed)) == written()
    sections = re.findall(r"^## (.+) directory$", PAGE, re.MULTILINE)
    assert {section.lower().replace("-", "") for section in sections} == written()
