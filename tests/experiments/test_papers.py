"""How mixed embeddings are, and the sentences about re-rankers that follow from figures."""

from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from experiments import reranking
from experiments.pairs import mixed
from measuring.results import Figures, page_of

MACHINE = "A machine."


def clouds(distance: float) -> list[np.ndarray]:
    """Two clouds of unit vectors, drawn alike or apart."""
    random = np.random.default_rng(0)
    points = [random.standard_normal((300, 8)) for _ in range(2)]
    points[1][:, 0] += distance
    return [each / np.linalg.norm(each, axis=1, keepdims=True) for each in points]


@pytest.mark.parametrize("neighbours", [1, 10])
def test_clouds_that_are_drawn_alike_are_mixed_and_clusters_are_not(neighbours: int) -> None:
    assert mixed(*clouds(0), neighbours) == pytest.approx(0.5, abs=0.05)
    assert mixed(*clouds(50), neighbours) < 0.05


def test_the_gain_of_a_reranker_is_judged_by_the_goal() -> None:
    def figures(gain: float) -> Figures:
        values = {"hybrid": {"a": 0.5, "b": 0.7, "c": 0.6}, "re-ranked": {}}
        for place, (query, value) in enumerate(values["hybrid"].items()):
            values["re-ranked"][query] = value + gain + 0.001 * place
        held_out = {"weight": 0.3, "ndcg@10": 0.6, "searched_ndcg@10": 0.5}
        cost = {"ms_a_pair": 5.0, "pairs": 8}
        return {"seconds": 1800, "held_out": held_out, "values": values, **cost}

    found = {("squad-dev-v1.1", 0): figures(0.05), ("qmsum", 0): figures(0.01)}
    given = {"template": "experiments/reranking.md.j2", "machine": MACHINE}
    page = page_of(Path("reranking.json"), reranking.collected(Namespace(), found) | given)
    squad, qmsum = (
        next(line for line in page.splitlines() if line.startswith(f"| {name} |"))
        for name in ("squad-dev-v1.1", "qmsum")
    )
    assert "| 0.6000 | 0.6510 | +0.0510 |" in squad
    assert squad.endswith("| reached |")
    assert "qmsum: the weight 0.3 was chosen on queries held out" in page
    assert "+0.1000." in page
    assert "1 epoch on squad-dev-v1.1, then 2 epochs on qmsum with `optimiser.learning_rate" in page
    assert qmsum.endswith("| **missed** |")
