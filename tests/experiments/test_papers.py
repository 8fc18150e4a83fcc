"""The experiments of 000 and 002: what they measure, and the sentences that follow from figures."""

from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from experiments import companions
from experiments.pairs import mixed
from measuring.results import RESULTS, Figures, page_of

MACHINE = "A machine."


def clouds(distance: float) -> list[np.ndarray]:
    """Two clouds of unit vectors, drawn alike or apart."""
    random = np.random.default_rng(0)
    points = [random.standard_normal((300, 8)) for _ in range(2)]
    points[1][:, 0] += distance
    return [each / np.linalg.norm(each, axis=1, keepdims=True) for each in points]


@pytest.mark.parametrize("neighbours", [1, 10])
def test_clouds_that_are_drawn_alike_are_mixed_and_clusters_are_not(neighbours):
    assert mixed(*clouds(0), neighbours) == pytest.approx(0.5, abs=0.05)
    assert mixed(*clouds(50), neighbours) < 0.05


def test_the_page_of_companions_names_the_best_row_and_the_gains():
    def figures(value: float) -> Figures:
        values = {f"q{number}": value + 0.001 * number for number in range(20)}
        sizes = {"documents": 9000, "learnt": 400, "tested": 20}
        return {"values": dict.fromkeys(companions.METRICS, values), "ms": 0.8, "sizes": sizes}

    names = [*companions.METHODS, *companions.ON_TOP]
    found = {(name, seed): figures(0.5) for name in names for seed in (0, 1)}
    found[companions.START, 0] = figures(0.5)
    found["STAR", 1] = found["STAR, then ADORE", 1] = figures(0.6)
    found["DAFT", 0] = found["DAFT", 1] = figures(0.7)
    found[companions.TEACHER, 0] = figures(0.9)
    given = {"template": "experiments/companions.md.j2", "machine": MACHINE}
    page = page_of(Path("companions.json"), companions.compared(found) | given)
    assert "All 9,000 documents, cut after" in page
    assert "The best row is DAFT, at 0.7095; the pair before training has 0.5095" in page
    assert "Against in-batch negatives alone: STAR +0.0500; TCT +0.0000; STAR, twice" in page
    assert "Against it: DAFT +0.2000;\n  STAR, then ADORE +0.0500" in page
    assert "After STAR, no checkpoint of ADORE was better" in page
    assert "After DAFT, no checkpoint" not in page
    assert "the training is too short to" in page
    assert "On top of DAFT: DAFT with STAR's negatives -0.2000" in page
    assert "worst seed is at most 0.0500" in page
    assert "the same negatives without alignment, DAFT +0.2000" in page


def test_the_control_stands_on_the_page_beside_the_stored_rows(tmp_path):
    control = companions.CONTROL[1]
    options = Namespace(only="control", raw=RESULTS / "companions.json", jobs=1)
    values = {
        name: {f"q{n}": value + n / 1000 for n in range(20)}
        for name, value in (("DAFT", 0.7), (control, 0.8))
    }
    found = {
        (name, seed): {
            "values": dict.fromkeys(companions.METRICS, values[name]),
            "ms": 1.0,
            "sizes": {"documents": 9, "learnt": 4, "tested": 2},
        }
        for name in companions.CONTROL
        for seed in (0, 1)
    }
    page = page_of(Path("companions.json"), companions.collected(options, found))
    assert (
        "DAFT -0.1000 (0.7095 ± 0.0000 and\n  0.8095 ± 0.0000 with 2 seeds): significantly worse."
        in page
    )
    assert "The best row is DAFT, at 0.7358" in page
