"""Figures that are measured once, and runs of the command line with one thread."""

import pytest

from measuring.runs import kept, run_swiftlet


def test_a_failed_command_gives_its_status_and_its_output(tmp_path):
    output = tmp_path / "new" / "output.txt"
    status, written = run_swiftlet("inspect", str(tmp_path / "none"), output=output)
    assert status == 2
    assert "none" in written
    assert output.read_text("utf-8") == written


def test_figures_are_measured_once_and_nothing_is_kept_of_a_failure(tmp_path):
    file = tmp_path / "figures.json"
    with pytest.raises(ZeroDivisionError):
        kept(file, lambda: 1 / 0)
    assert not [*tmp_path.iterdir()]
    assert kept(file, lambda: {"a": 1}) == {"a": 1}
    assert kept(file, lambda: 1 / 0) == {"a": 1}
