"""A tiny teacher and a query log."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checkpoints import WORDS
from tests.runs import Listener
from training.distillation.distill import DistillationResult, distill
from training.distillation.settings import Distillation
from training.model.towers import Tower, TowerSettings

Distil = Callable[..., DistillationResult]


@pytest.fixture(scope="session")
def teacher(checkpoints, tmp_path_factory) -> Path:
    """A Sentence Transformers directory; read only."""
    folder = tmp_path_factory.mktemp("teacher") / "encoder"
    Tower.load(TowerSettings(model=checkpoints["bert"], pooling="mean")).save(folder)
    return folder


@pytest.fixture(scope="session")
def log(tmp_path_factory) -> Path:
    """400 queries of one to eight words; read only."""
    chance = random.Random(1)
    lines = [" ".join(chance.choices(WORDS, k=chance.randint(1, 8))) for _ in range(400)]
    path = tmp_path_factory.mktemp("log") / "queries.txt"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="session")
def distil(teacher, log) -> Distil:
    """Distils one layer of the teacher; takes settings and the arguments of `distill`."""

    def run(out: Path, listener: Listener | None = None, **options: object) -> DistillationResult:
        arguments = {
            name: options.pop(name)
            for name in ("teacher_embeddings", "test", "resume", "finish", "overwrite")
            if name in options
        }
        defaults: dict[str, object] = {
            "teacher": str(teacher),
            "layers": (0,),
            "queries": (str(log),),
            "epochs": 6.0,
            "batch_size": 16,
            "learning_rate": 1e-3,
            "warmup_steps": 0,
            "every": 15,
        }
        settings = Distillation(**(defaults | options))  # type: ignore[arg-type]
        return distill(settings, out, progress=listener or Listener(), **arguments)  # type: ignore[arg-type]

    return run
