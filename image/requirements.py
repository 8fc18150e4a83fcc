"""Prints the base dependencies that pyproject.toml names, for pip to install without the project.

So the layer that holds them stays as it is when only the project's own code changes.
"""

import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
print(*project["dependencies"], sep="\n")
