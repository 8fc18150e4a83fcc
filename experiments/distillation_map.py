"""How near each choice of a teacher's layers is to the teacher before it has learnt anything.

As it is, and after the linear map of its output that fits best: all of one, two and three layers.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import combinations, islice

import torch
from distillation_data import Prepared
from torch import nn
from torch.nn import functional

from models import torch_weights
from training.devices import make_accelerator
from training.distillation.student import Student
from training.distillation.teacher import Teacher
from training.distillation.texts import read_query_texts
from training.encoders import TowerSettings

NUM_LAYERS = 6
LARGEST = 3
FITTED_ON, MEASURED_ON = 4500, 1500

Start = tuple[float, float]
"""The mean cosine with the teacher as it is, and mapped."""


def layer_map(prepared: Prepared) -> Mapping[tuple[int, ...], Start]:
    """The start of every choice of layers; kept once measured."""
    path = prepared.folder / "layer-map.json"
    if not path.is_file():
        measured = [[layers, start] for layers, start in _measure(prepared)]
        path.write_text(json.dumps(measured))
    return {tuple(layers): tuple(start) for layers, start in json.loads(path.read_text("utf-8"))}


def _measure(prepared: Prepared) -> Iterator[tuple[tuple[int, ...], Start]]:
    texts = list(islice(read_query_texts(prepared.web_queries), FITTED_ON + MEASURED_ON))
    wanted = _outputs(prepared, texts)
    for size in range(1, LARGEST + 1):
        for layers in combinations(range(NUM_LAYERS), size):
            outputs = _outputs(prepared, texts, layers)
            yield layers, (_cosine(outputs, wanted), _mapped_cosine(outputs, wanted))


def _outputs(
    prepared: Prepared, texts: list[str], layers: tuple[int, ...] | None = None
) -> torch.Tensor:
    settings = TowerSettings(model=torch_weights(), layers=layers)
    folder = prepared.folder / "teacher-embeddings"
    return Teacher.load(settings, folder, make_accelerator("bf16", 1)).encode(texts)


def _cosine(outputs: torch.Tensor, wanted: torch.Tensor) -> float:
    measured = outputs[-MEASURED_ON:], wanted[-MEASURED_ON:]
    return float(functional.cosine_similarity(*measured).mean())


@torch.inference_mode()
def _mapped_cosine(outputs: torch.Tensor, wanted: torch.Tensor) -> float:
    projection = nn.Linear(outputs.shape[1], wanted.shape[1])
    student = Student(nn.Identity(), projection)
    student.fit_projection(outputs[:FITTED_ON], wanted[:FITTED_ON])
    return _cosine(projection(outputs), wanted)
