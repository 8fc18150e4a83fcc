import re
import tomllib
from pathlib import Path

import pytest

from swiftlet.errors import MissingExtraError
from swiftlet.extras import extra


def test_a_package_that_is_not_installed_is_named_with_the_extra_that_brings_it():
    message = r"'no_such_package' is not installed: .* constraints\.txt '\.\[evaluation\]'"
    with pytest.raises(MissingExtraError, match=message), extra("evaluation"):
        import no_such_package  # noqa: F401


def test_each_extra_that_an_error_names_is_one_of_the_project():
    project = Path(__file__).parents[2]
    known = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    sources = [each for room in ("swiftlet", "service") for each in (project / room).rglob("*.py")]
    named = {
        name
        for source in sources
        for name in re.findall(r"\b(?:extra|way_to)\(\"([\w-]+)\"\)", source.read_text())
    }
    assert len(named) > 5
    assert named <= {*known["optional-dependencies"]}
