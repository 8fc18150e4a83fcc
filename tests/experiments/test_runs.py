"""Runs are processes of the command line, with the threads that were asked for."""

import os
from functools import partial
from pathlib import Path

from experiments.runs import Processes, measured


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
