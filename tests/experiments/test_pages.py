"""Pages of docs/results are those that their raw figures and templates give."""

import json
import re
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from experiments import companions, hybrid, ship
from experiments.daft import __main__ as daft
from experiments.distillation import __main__ as distillation
from experiments.distillation import texts
from experiments.distillation.__main__ import draw
from experiments.distillation.students import STUDENTS, long_run, settings_of
from experiments.folder import __main__ as folder
from experiments.pairs import distilled
from experiments.ship import document_encoder_card
from measuring.results import RESULTS, write
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.manifest import load_manifest


def page(folder: Path, name: str, figures: dict) -> str:
    return write(folder / f"{name}.json", figures).read_text("utf-8")


def test_a_missed_target_stands_on_the_distillation_page(tmp_path):
    figures = json.loads((RESULTS / "distillation.json").read_text("utf-8"))
    assert "`two-layers int8` keeps 97.2% and reaches the 97%" in page(
        tmp_path, "distillation", figures
    )
    for student in figures["students"]:
        student["mean"] = 0.96
    assert "`two-layers int8` keeps 96.0% and misses the 97%" in page(
        tmp_path, "distillation", figures
    )


def test_plots_are_drawn_from_the_raw_figures_alone(tmp_path):
    figures = json.loads((RESULTS / "distillation.json").read_text("utf-8"))
    draw(tmp_path, figures, tmp_path)
    drawn = sorted(path.name for path in tmp_path.iterdir())
    assert drawn == ["distillation-latency.png"]
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in drawn)


def test_the_card_of_the_document_encoder_is_made_from_its_manifest():
    card = document_encoder_card(load_manifest(DEFAULT_ENCODER, "encoder"))
    assert card == (DEFAULT_ENCODER / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    "script",
    [companions, daft, distillation, folder, hybrid, ship],
    ids=lambda script: script.__name__,
)
def test_an_experiment_says_in_a_sentence_what_it_measures_and_how_long_it_takes(script):
    first, command, *_ = script.__doc__.split("\n\n")
    name = script.__name__.removesuffix(".__main__")
    assert first.endswith(".")
    assert command.startswith(f"    python -m {name} ")
    assert "--data DATA" in command
    assert re.search(
        r"\btakes?\b.*\b(minutes?|hours?)\b", script.__doc__, re.DOTALL | re.IGNORECASE
    )


def test_the_settings_of_each_student_are_those_of_a_distillation(tmp_path, monkeypatch):
    made = {"queries": ("queries.jsonl",), "corpora": ("corpus",)}
    monkeypatch.setattr(texts, "prepared", lambda *_: made)
    options = Namespace(data=tmp_path, wordnet=tmp_path, work=tmp_path)
    (tmp_path / "manifest.json").touch()  # as of a finished run
    for name in STUDENTS:
        first, last = (
            distilled(settings_of(options, run), tmp_path) for run in (long_run(name), name)
        )
        assert first.corpora == made["corpora"]
        assert (last.corpora, Path(last.student or "").name) == ((), "query_encoder")


def test_an_encoder_cannot_be_shipped_without_wordnet(tmp_path, monkeypatch):
    for name in texts.collections():
        (tmp_path / name).mkdir()
        (tmp_path / name / "queries.jsonl").touch()
    words = ["ship", "look-up-encoder", "--data", tmp_path, "--work", tmp_path / "work"]
    monkeypatch.setattr(sys, "argv", [*map(str, words), "--wordnet", f"{tmp_path / 'none'}"])
    with pytest.raises(SystemExit, match=r"^experiments: .*none has no data.noun: install"):
        ship.main()
