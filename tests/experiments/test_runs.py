"""Runs are processes of the command line, with the threads that were asked for."""

from experiments.runs import Processes


def test_a_failed_command_gives_its_status_and_its_output(tmp_path):
    output = tmp_path / "new" / "output.txt"
    status, written = Processes(1, 1).swiftlet("inspect", str(tmp_path / "none"), output=output)
    assert status == 2
    assert "none" in written
    assert output.read_text("utf-8") == written


def test_each_item_is_worked_on():
    done: list[int] = []
    Processes(2, 1).each(done.append, range(5))
    assert sorted(done) == [0, 1, 2, 3, 4]
