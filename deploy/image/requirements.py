"""Prints the base dependencies of pyproject.toml, so that pip can install them without the project.

Their layer of the image is then not built again when only the project's own code changes.
"""

import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
print(*project["dependencies"], sep="\n")
