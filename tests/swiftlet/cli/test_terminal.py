"""What commands show in a terminal."""

import re
from io import StringIO
from threading import Event
from time import sleep

from rich.console import Console

from swiftlet.cli import terminal
from swiftlet.cli.terminal import ProgressBars


def test_work_that_ends_early_is_shown_as_ended(capsys):
    with ProgressBars() as bars:
        bars.begin("Alignment", 20)
        bars.advance(7)
        bars.begin("Fine-tuning", 3)
        bars.advance(3)
    shown = capsys.readouterr().err
    assert re.search(r"✓ Alignment .* 7/7", shown)
    assert re.search(r"✓ Fine-tuning .* 3/3", shown)


def test_a_log_has_a_line_from_time_to_time_also_while_one_document_is_read(monkeypatch):
    log = StringIO()  # pytest's capture loses what is printed while the capture is read
    monkeypatch.setattr(terminal, "messages", Console(file=log))
    monkeypatch.setattr(terminal, "_SECONDS_BETWEEN_LINES", 0.01)
    with ProgressBars() as progress:
        progress.begin("Reading documents", None)
        while "Reading documents: 0\n" not in log.getvalue():
            sleep(0.01)
        progress.begin("Encoding passages", 20, done=5)
        progress.advance(5)
        while "Encoding passages: 10 of 20" not in log.getvalue():
            sleep(0.01)


def test_a_line_of_a_log_is_not_repeated(monkeypatch, capsys):
    class SetAfterThreeWaits(Event):
        """An event that is set when it is waited for a fourth time."""

        waits = 0

        def wait(self, timeout: float | None = None) -> bool:
            self.waits += 1
            return self.waits > 3

    monkeypatch.setattr(terminal, "Event", SetAfterThreeWaits)
    with ProgressBars() as progress:
        progress.begin("Teacher", 20)
    assert capsys.readouterr().err.count("Teacher: 0 of 20\n") == 1
