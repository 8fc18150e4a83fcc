"""What commands show in a terminal."""

import re

import pytest

from swiftlet.cli import terminal
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


def test_a_log_gets_lines_from_time_to_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(terminal, "monotonic", lambda: now[0])
    with ProgressBars() as bars:
        bars.begin("Encoding", 4000)
        for _ in range(4):
            bars.advance(500)
            now[0] += 4
        bars.begin("Reading", None)
        now[0] += 11
        bars.advance(3)
    shown = capsys.readouterr().err
    lines = re.findall(r"^Encoding: .* of 4,000", shown, re.MULTILINE)
    assert lines == ["Encoding: 2,000 of 4,000"]
    assert "Reading: 3\n" in shown
