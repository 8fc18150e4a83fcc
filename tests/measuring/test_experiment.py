"""The skeleton of all experiments, on one that only counts."""

import json
import os
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from measuring import experiment
from measuring.experiment import Experiment, kept, laid_over, settings_beside
from swiftlet.errors import CollectionError

COUNTING = Experiment("counting", "Counts.", ["hills"], ["numpy"], seeds=3, jobs=2)


@pytest.fixture
def data(tmp_path) -> Path:
    """A collection of a thousand documents, of which the last two are relevant."""
    folder = tmp_path / "data" / "hills"
    (folder / "qrels").mkdir(parents=True)
    rows = [
        json.dumps({"_id": f"{number}", "text": f"hill {number} " * 200}) for number in range(1000)
    ]
    (folder / "corpus.jsonl").write_text("\n".join(rows))
    queries = [json.dumps({"_id": f"q{number}", "text": f"{number}"}) for number in range(100)]
    (folder / "queries.jsonl").write_text("\n".join(queries))
    judged = [f"q{number}\t{998 + number % 2}\t1" for number in range(100)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))
    return folder.parent


@pytest.fixture
def given(data, tmp_path, monkeypatch) -> list[str]:
    """The command line, which tests extend."""
    words = ["counting", "--data", f"{data}", "--work", f"{tmp_path / 'work'}"]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr(experiment, "RUNS", tmp_path / "runs")
    return words


def figures_of(options: Namespace, name: str, seed: int) -> dict[str, str]:
    with (options.work / "measured.txt").open("a") as file:
        file.write(f"{name} {seed} {os.environ['OMP_NUM_THREADS']}\n")
    return {"name": name * seed}


def refused(options: Namespace, name: str) -> dict[str, str]:
    raise CollectionError(Path(name), "it is bad", 3)


def test_runs_are_measured_once_in_processes_of_one_thread(given, tmp_path, capsys):
    stages = [[("a", 1)], [("a", 1), ("b", 2)]]
    expected = {("a", 1): {"name": "a"}, ("b", 2): {"name": "bb"}}
    options = COUNTING.options()
    assert COUNTING.measured(options, stages, figures_of) == expected
    assert "2 of 2, after " in capsys.readouterr().out
    assert COUNTING.measured(options, stages, figures_of) == expected
    assert "nothing to measure: all 2 runs of counting are in" in capsys.readouterr().out
    lines = (tmp_path / "work" / "measured.txt").read_text().splitlines()
    assert lines == ["a 1 1", "b 2 1"]
    options.again = True
    assert COUNTING.measured(options, stages, figures_of) == expected
    assert (tmp_path / "work" / "measured.txt").read_text().count("\n") == 4


def test_a_trial_run_has_little_data_and_writes_nowhere_else(given, data, tmp_path):
    given.append("--smoke")
    options = COUNTING.options()
    runs = tmp_path / "runs" / "smoke"
    assert (options.work, options.raw) == (runs / "counting", runs / "results" / "counting.json")
    assert options.seeds == 1
    small = options.data / "hills"
    documents = [*map(json.loads, (small / "corpus.jsonl").open())]
    assert [each["_id"] for each in documents] == [*map(str, range(300)), "998", "999"]
    assert {len(each["text"]) for each in documents} == {1000}
    assert (small / "queries.jsonl").read_text().count("\n") == 60
    assert (small / "qrels" / "test.tsv").read_text().count("\n") == 61


@pytest.mark.parametrize(
    ("folder", "sentence"),
    [
        ("none", "--data: {}: there is no such file or folder"),
        ("empty", "{} has no collection hills: run python -m experiments.data --out {} hills"),
    ],
)
def test_a_wrong_folder_of_data_is_one_sentence(given, tmp_path, capsys, folder, sentence):
    (tmp_path / "empty").mkdir()
    given[2] = f"{tmp_path / folder}"
    with pytest.raises(SystemExit, match="2"):
        COUNTING.options()
    (line,) = capsys.readouterr().err.splitlines()
    assert sentence.format(given[2], given[2]) in line


def test_bad_data_are_one_sentence_also_from_another_process(given):
    with pytest.raises(SystemExit, match="experiments: data, line 3: it is bad"):
        COUNTING.main(lambda _: [[("data",)]], refused, lambda _, found: {})


def test_a_table_changes_the_settings_of_a_trial_run(given, tmp_path):
    script = tmp_path / "counting.py"
    script.with_suffix(".toml").write_text(
        "[training]\nsteps = 100\nrate = 0.1\n[smoke.training]\nsteps = 1\n"
    )
    assert settings_beside(f"{script}") == {"training": {"steps": 100, "rate": 0.1}}
    given.append("--smoke")
    assert settings_beside(f"{script}") == {"training": {"steps": 1, "rate": 0.1}}
    assert laid_over({"a": {"b": 1}}, {"a": {"c": 2}, "d": 3}) == {"a": {"b": 1, "c": 2}, "d": 3}


def test_figures_are_measured_once_and_nothing_is_kept_of_a_failure(tmp_path):
    file = tmp_path / "figures.json"
    with pytest.raises(ZeroDivisionError):
        kept(file, lambda: 1 / 0)
    assert not [*tmp_path.iterdir()]
    assert kept(file, lambda: {"a": 1}) == {"a": 1}
    assert kept(file, lambda: 1 / 0) == {"a": 1}
