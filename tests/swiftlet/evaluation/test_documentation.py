"""docs/evaluation.md names modules and functions that exist, and its example runs."""

import re
from importlib import import_module
from pathlib import Path

PAGE = (Path(__file__).parents[3] / "docs" / "evaluation.md").read_text("utf-8")


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    qrels = tmp_path / "CORPUS" / "qrels"
    qrels.mkdir(parents=True)
    (qrels / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\tb\t1\n")
    (tmp_path / "first.run").write_text("q1 Q0 a 1 2.0 x\nq1 Q0 b 2 1.0 x\nq2 Q0 b 1 1.0 x\n")
    (tmp_path / "second.run").write_text("q1 Q0 b 1 2.0 x\nq1 Q0 a 2 1.0 x\nq2 Q0 b 1 1.0 x\n")
    monkeypatch.chdir(tmp_path)
    exec(example, {})
    assert capsys.readouterr().out == "second over first: -0.185, p = 0.500\n"


def test_every_named_function_exists():
    table = PAGE.split("| module | functions |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `([\w.]+)` \| (.*) \|$", table, re.MULTILINE)
    assert len(rows) == 4
    for module, functions in rows:
        names = [name for name in re.findall(r"`(\w+)`", functions) if name != module]
        assert names
        assert all(hasattr(import_module(f"swiftlet.evaluation.{module}"), name) for name in names)
