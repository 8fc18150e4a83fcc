"""Runs are processes of the command line, with the threads that were asked for."""

import os
import sys
from functools import partial
from pathlib import Path

import pytest

from measuring.command_line import script_options
from measuring.runs import Processes, measured
from swiftlet.errors import CollectionError


def test_a_folder_that_is_not_there_is_refused_before_anything_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["experiment", "--data", f"{tmp_path}"])
    assert script_options("An experiment.", data=Path).data == tmp_path
    folder = tmp_path / "none"
    monkeypatch.setattr(sys, "argv", ["experiment", "--data", f"{folder}"])
    with pytest.raises(SystemExit, match="2"):
        script_options("An experiment.", data=Path)
    assert f"--data {folder}: there is no such file or folder" in capsys.readouterr().err


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


def figures_of(folder: Path, name: str, seed: int) -> dict[str, str]:
    with (folder / "measured.txt").open("a") as file:
        file.write(f"{name} {seed} {os.environ['OMP_NUM_THREADS']}\n")
    return {"name": name * seed}


def test_runs_are_measured_once_in_processes_of_one_thread(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    runs, work = [("a", 1), ("b", 2)], tmp_path / "work"
    for _ in range(2):
        found = measured(partial(figures_of, tmp_path), runs, work, 2)
        assert found == {("a", 1): {"name": "a"}, ("b", 2): {"name": "bb"}}
    lines = (tmp_path / "measured.txt").read_text().splitlines()
    assert sorted(lines) == ["a 1 1", "b 2 1"]
    assert sorted(path.name for path in work.iterdir()) == ["a, 1.json", "b, 2.json"]


def refused(line: int) -> dict[str, str]:
    raise CollectionError(Path("data"), "it is bad", line)


def test_bad_data_are_named_also_from_another_process(tmp_path):
    with pytest.raises(CollectionError, match="data, line 3: it is bad") as caught:
        measured(refused, [(3,)], tmp_path, 1)
    assert caught.value.line_number == 3
