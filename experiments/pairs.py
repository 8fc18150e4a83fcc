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
from export.quality import Collection
from measuring.experiment import Stages, kept
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import TOKENIZER_FILE, OnnxEncoder, Precision
from swiftlet.encoders.encoding import encode_texts
from swiftlet.evaluation.exact import rank
from swiftlet.index.documents.passages import encoder_text
from swiftlet.types import Embeddings, Run
from training.distillation.distill import distill
from training.distillation.settings import Distillation
from training.model.towers import Tower, TowerSettings
from training.recipes.settings import Recipe, parse_recipe
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
    def trained(cls, name: str, recipe: Mapping[str, Any]) -> "Pair":
        """Train a pair by a recipe, and keep nothing else."""
        with TemporaryDirectory() as working:
            return cls.of(run_of(parse_recipe(dict(recipe), name), Path(working, "run")))

    @classmethod
    def of(cls, run: Path, precision: Precision = "fp32") -> "Pair":
        """The encoders of a finished run, exported."""
        towers = ["query_encoder", "document_encoder"]
        # One tower may be both.
        found = [each if (run / each).is_dir() else towers[1] for each in towers]
        with TemporaryDirectory() as working:
            for tower in dict.fromkeys(found):
                export_encoder(run / tower, Path(working, tower), precisions=[precision])
            return cls(*(OnnxEncoder.load(Path(working, tower)) for tower in found))

    def run(self, collection: Collection) -> tuple[Run, Embeddings, Embeddings]:
        """The 100 best documents of each query, and the embeddings of queries and documents.

        Texts are cut after the most tokens that the encoder reads; the search is exact.
        """
        texts = [encoder_text(each.title, each.text) for each in collection.documents]
        queries = encode_texts(self.query_encoder, [q.text for q in collection.queries], 1)
        documents = encode_texts(self.document_encoder, texts, 1)
        ids = [query.query_id for query in collection.queries]
        found = rank(ids, queries, [d.document_id for d in collection.documents], documents, 100)
        return found, queries, documents


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
