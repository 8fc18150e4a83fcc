"""The cosine with the teacher for every choice of one, two or three of its layers, untrained.

Each choice is measured as it is, and after the linear map of its output that fits the teacher best.
"""

from collections.abc import Iterator
from itertools import combinations, islice

import torch
from torch.nn import functional

from experiments.distillation_data import Workplace
from experiments.runs import kept
from swiftlet.encoders import torch_weights
from training.distillation.teacher import Teacher
from training.distillation.texts import read_query_texts
from training.loop.devices import make_accelerator
from training.model.towers import TowerSettings

NUM_LAYERS = 6
LARGEST = 3
FITTED_ON, MEASURED_ON = 4500, 1500

Start = tuple[float, float]
"""The mean cosine with the teacher, without and with the linear map."""


def layer_map(workplace: Workplace) -> list[tuple[list[int], Start]]:
    """Every choice of layers with its cosines; measured once and kept."""
    path = workplace.folder / "layer-map.json"
    found: list[tuple[list[int], Start]] = kept(path, lambda: [*_measure(workplace)])
    return found


def _measure(workplace: Workplace) -> Iterator[tuple[tuple[int, ...], Start]]:
    texts = list(islice(read_query_texts(workplace.web_queries), FITTED_ON + MEASURED_ON))
    wanted = _outputs(workplace, texts)
    for size in range(1, LARGEST + 1):
        for layers in combinations(range(NUM_LAYERS), size):
            outputs = _outputs(workplace, texts, layers)
            yield layers, (_cosine(outputs, wanted), _mapped_cosine(outputs, wanted))


def _outputs(
    workplace: Workplace, texts: list[str], layers: tuple[int, ...] | None = None
) -> torch.Tensor:
    settings = TowerSettings(model=torch_weights(), layers=layers)
    accelerator = make_accelerator("bf16", 1)
    return Teacher.load(settings, workplace.teacher_embeddings, accelerator).encode(texts)


def _cosine(outputs: torch.Tensor, wanted: torch.Tensor) -> float:
    measured = outputs[-MEASURED_ON:], wanted[-MEASURED_ON:]
    return float(functional.cosine_similarity(*measured).mean())


def _mapped_cosine(outputs: torch.Tensor, wanted: torch.Tensor) -> float:
    """The cosine after the best affine map of the outputs, by least squares."""
    extended = torch.cat([outputs, torch.ones(len(outputs), 1)], dim=1)
    fitted = torch.linalg.lstsq(extended[:FITTED_ON], wanted[:FITTED_ON], driver="gelsd")
    return _cosine(extended @ fitted.solution, wanted)
