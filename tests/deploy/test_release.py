"""A release, made in a clone."""

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.deploy.tools import ROOT

ENVIRONMENT = {
    **os.environ,
    "DOCKER_HOST": "unix:///nowhere",
    **{f"GIT_{role}_NAME": "Somebody" for role in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{role}_EMAIL": "somebody@example.org" for role in ("AUTHOR", "COMMITTER")},
}


@pytest.fixture
def clone(tmp_path) -> Path:
    """A clone without large files, and with a changelog of version 9.1.0."""
    folder = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--shared", str(ROOT), str(folder))
    git(folder, "rm", "-r", "--quiet", "docs", "swiftlet/encoders")
    changelog = folder / "CHANGELOG.md"
    changelog.write_text(
        changelog.read_text().replace("## Unreleased\n", "## Unreleased\n\n## 9.1.0 — 2030-01-31\n")
    )
    git(folder, "commit", "--quiet", "--all", "--message", "Describe 9.1.0")
    return folder


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], check=True, capture_output=True, text=True, cwd=folder, env=ENVIRONMENT
    ).stdout


def release(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "deploy/release.py", *arguments],
        check=False, capture_output=True, text=True, cwd=clone, env=ENVIRONMENT,
    )  # fmt: skip


def test_a_release_is_built_committed_and_tagged_but_not_published(clone):
    made = release(clone, "9.1.0", "--no-image")
    assert made.returncode == 0, made.stdout + made.stderr
    assert git(clone, "log", "-1", "--format=%s %D").startswith("Release 9.1.0 HEAD")
    assert git(clone, "tag", "--points-at", "HEAD") == "v9.1.0\n"
    assert git(clone, "status", "--porcelain") == ""
    changed = git(clone, "show", "--format=", "HEAD")
    added = [line for line in changed.splitlines() if line.startswith("+") and line[1] != "+"]
    assert len([line for line in added if "9.1.0" in line]) == 7
    assert "+date-released: 2030-01-31" in added
    assert 'version = "9.1.0"' in (clone / "pyproject.toml").read_text()
    (sdist,), (wheel,) = (clone / "dist").glob("*.tar.gz"), (clone / "dist").glob("*.whl")
    with tarfile.open(sdist) as archive:
        assert "swiftlet_retrieval-9.1.0/CITATION.cff" in archive.getnames()
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read("swiftlet_retrieval-9.1.0.dist-info/METADATA").decode()
    assert "Version: 9.1.0\n" in metadata
    commands = made.stdout.splitlines()[-2:]
    assert commands[0].split()[:3] == ["git", "push", "origin"]
    packages = sorted(f"{path.relative_to(clone)}" for path in (sdist, wheel))
    assert commands[1].split()[:4] == ["twine", "upload", *packages]
    assert git(clone, "ls-remote", "origin", "refs/tags/v9.1.0") == ""
    again = release(clone, "9.1.0", "--no-image")
    assert (again.returncode, again.stderr) == (
        2, "make release: the tag v9.1.0 exists; choose a newer version\n",
    )  # fmt: skip


def test_a_release_that_cannot_be_made_is_refused_in_one_sentence(clone):
    current = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    no_heading = (
        'CHANGELOG.md has no heading "## 9.2.0 — YYYY-MM-DD"; put one below "## Unreleased", '
        "above the changes of this version"
    )
    no_docker = "no Docker daemon answers; start it, or leave the image out: RELEASE=--no-image"
    for version, complaint in {
        "9.1": "VERSION is '9.1'; three numbers such as 0.2.0 are expected",
        "0.0.9": f"VERSION is 0.0.9, which is older than {current}; choose a newer one",
        "9.2.0": no_heading,
        "9.1.0": no_docker,
    }.items():
        refused = release(clone, version)
        assert (refused.returncode, refused.stderr) == (2, f"make release: {complaint}\n")
    (clone / "notes.txt").write_text("not committed")
    refused = release(clone, "9.1.0")
    assert "the tree has changes (notes.txt); commit or remove them first" in refused.stderr
    assert git(clone, "log", "-1", "--format=%s") == "Describe 9.1.0\n"
