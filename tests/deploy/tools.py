"""The tools of operators, which must be installed if CI is set."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"

SOURCES = {
    "actionlint": "github.com/rhysd/actionlint",
    "docker-compose": "Debian's docker-compose, or Docker's own",
    "hadolint": "the extra dev",
    "helm": "Helm's own packages",
    "kubectl": "Kubernetes' own packages, 1.27 or newer: Debian's is too old",
    "make": "the system",
    "prometheus": "Debian's prometheus",
    "promtool": "Debian's prometheus",
    "sh": "the system",
    "swiftlet": "this project",
}


NOT_PACKAGED = {"actionlint", "helm", "kubectl"}
"""Tools without a current version in Debian or on PyPI, which CI therefore does not require."""


def path_of(tool: str) -> str:
    """The path of a program; if it is missing, the test fails in CI, and is skipped elsewhere."""
    beside_python = Path(sys.executable).parent
    found = shutil.which(tool, path=f"{beside_python}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        message = f"{tool} is needed, from {SOURCES[tool]}"
        if os.environ.get("CI") and tool not in NOT_PACKAGED:
            pytest.fail(message)
        pytest.skip(message)
    return found


def ask(
    tool: str, *arguments: object, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end, also if it finds errors."""
    return subprocess.run(
        [path_of(tool), *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, **(environment or {})},
    )


def output_of(tool: str, *arguments: object, environment: Mapping[str, str] | None = None) -> str:
    """The output of a tool that must find no errors."""
    result = ask(tool, *arguments, environment=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
