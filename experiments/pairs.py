"""Small encoders that experiments train, export and evaluate by exact search."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from export.encoder_directory import export_encoder
from export.latency import measure_latencies, texts_of_length
from measuring.experiment import Stages, kept
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import TOKENIZER_FILE, OnnxEncoder, Precision
from swiftlet.types import Embeddings
from training.distillation.distill import distill
from training.distillation.settings import Distillation
from training.model.towers import Tower, TowerSettings
from training.model.trained import TOWERS
from training.recipes.settings import Recipe
from training.train import train


def run_of(recipe: Recipe, folder: Path) -> Path:
    """The directory of a run, which is trained, or goes on, unless it is finished."""
    if not (folder / "manifest.json").exists():
        train(recipe, folder, resume=True, progress=Stages())
    return folder


def distilled(settings: Mapping[str, Any], run: Path, cache: Path | None = None) -> Distillation:
    """The settings of a distillation, which is trained, or goes on, unless it is finished.

    :param cache: Where the teacher's embeddings are kept, which other runs can share.
    """
    recipe = Distillation.model_validate(settings, strict=False)  # TOML has lists, not tuples
    if not (run / "manifest.json").exists():
        distill(recipe, run, teacher_embeddings=cache, resume=True, progress=Stages())
    return recipe


@dataclass(frozen=True)
class Pair:
    """A query encoder and a document encoder."""

    query_encoder: OnnxEncoder
    document_encoder: OnnxEncoder

    @classmethod
    def of(cls, run: Path, precision: Precision) -> "Pair":
        """The encoders of a finished run, exported."""
        with TemporaryDirectory() as working:
            for tower in TOWERS:
                export_encoder(run / tower, Path(working, tower), precisions=[precision])
            return cls(*(OnnxEncoder.load(Path(working, tower)) for tower in TOWERS))


def shortened(encoder: Path, tokens: int, precision: Precision) -> OnnxEncoder:
    """An encoder that reads so many tokens of a text."""
    with TemporaryDirectory() as working:
        model, exported = Path(working, "model"), Path(working, "exported")
        Tower.load(TowerSettings(encoder, max_tokens=tokens)).save(model)
        export_encoder(model, exported, precisions=[precision])
        return OnnxEncoder.load(exported)


def query_latencies(directories: Mapping[str, Path], path: Path) -> dict[str, float]:
    """Median milliseconds for a query of ten tokens, by encoder in int8; measured once and kept.

    On one thread, tokenising included; the encoders alternate. The tokens are word pieces of the
    encoder that ships.
    """

    tokens = 10

    def measure() -> dict[str, float]:
        encoders = {n: OnnxEncoder.load(each, precision="int8") for n, each in directories.items()}
        texts = texts_of_length((DEFAULT_ENCODER / TOKENIZER_FILE).read_text("utf-8"), [tokens])
        seconds = measure_latencies(encoders, texts, rounds=300, seconds=inf)
        return {name: 1000 * by_length[tokens] for name, by_length in seconds.items()}

    return dict(kept(path, measure))


def mixed(queries: Embeddings, documents: Embeddings, neighbours: int) -> float:
    """The share of the other kind among the nearest of each of n queries and n documents.

    It is about 0.5 if both are drawn alike, and 0 if they are two clusters.
    """
    points = np.concatenate((queries, documents))
    of_queries = np.arange(len(points)) < len(queries)
    scores = points @ points.T
    np.fill_diagonal(scores, -np.inf)
    nearest = np.argpartition(-scores, neighbours, axis=1)[:, :neighbours]
    return float((of_queries[nearest] != of_queries[:, np.newaxis]).mean())
