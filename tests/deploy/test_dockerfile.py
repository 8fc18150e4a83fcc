"""The Dockerfile, as hadolint reads it."""

from tests.deploy.tools import ROOT, output_of


def test_hadolint_finds_nothing() -> None:
    output_of("hadolint", ROOT / "Dockerfile")
