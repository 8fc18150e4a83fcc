"""Prints the dependencies of pyproject.toml, so that pip can install them without the project.

Those of serving and indexing, and of the extras that the command line names.

Their layer of the image is then not built again when only the project's own code changes.
"""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
extras = [project["optional-dependencies"][name] for name in sys.argv[1:]]
print(*project["dependencies"], *(line for extra in extras for line in extra), sep="\n")
