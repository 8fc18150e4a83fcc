"""The files that the site of the repository and its readers' programs take."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner

from tests.deploy.tools import ROOT, output_of

GITHUB = ROOT / ".github"
FORMS = GITHUB / "ISSUE_TEMPLATE"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))


def test_actionlint_finds_nothing_in_the_workflows():
    output_of("actionlint", *WORKFLOWS)


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("citation-file-format", [ROOT / "CITATION.cff"]),
        ("dependabot", [GITHUB / "dependabot.yml"]),
        ("github-issue-config", [FORMS / "config.yml"]),
        ("github-issue-forms", [FORMS / "bug.yml", FORMS / "question.yml"]),
        ("github-workflows", WORKFLOWS),
    ],
)
def test_the_files_fit_their_schemas(schema, files):
    options = ["--default-filetype", "yaml", "--builtin-schema", f"vendor.{schema}"]
    result = CliRunner().invoke(check_jsonschema, [*options, *map(str, files)])
    assert result.exit_code == 0, result.output


def targets_of(workflow: Path) -> Iterator[str]:
    """The targets of make that a workflow calls."""
    for job in yaml.safe_load(workflow.read_text())["jobs"].values():
        for step in job["steps"]:
            program, *words = step.get("run", "-").split()
            if program == "make":
                matrix = job.get("strategy", {}).get("matrix", {})
                yield from matrix["target"] if "matrix.target" in words else words


def test_the_workflows_call_the_targets_of_ci_and_only_such_as_exist():
    called = {target for workflow in WORKFLOWS for target in targets_of(workflow)}
    assert {"lint", "tests", "check", "soak", "test-image", "dist", "image", "sbom"} == called
    output_of("make", "--dry-run", "--directory", ROOT, *called)
