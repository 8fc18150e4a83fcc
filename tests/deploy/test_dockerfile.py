"""The Dockerfile, as hadolint reads it."""

from pathlib import Path

from tests.deploy.tools import ROOT, ask, output_of


def test_hadolint_finds_nothing() -> None:
    output_of("hadolint", ROOT / "Dockerfile")


def test_hadolint_reports_a_bad_dockerfile(tmp_path: Path) -> None:
    wrong = tmp_path / "Dockerfile"
    wrong.write_text("FROM debian\nRUN cd /srv\n")
    assert ask("hadolint", wrong).returncode != 0
