"""What commands show in a terminal."""

import re

import pytest

from swiftlet.cli.terminal import ProgressBars


def test_work_that_ends_early_is_shown_as_ended(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBars() as bars:
        bars.begin("Alignment", 20)
        bars.advance(7)
        bars.begin("Fine-tuning", 3)
        bars.advance(3)
    shown = capsys.readouterr().err
    assert re.search(r"✓ Alignment .* 7/7", shown)
    assert re.search(r"✓ Fine-tuning .* 3/3", shown)
