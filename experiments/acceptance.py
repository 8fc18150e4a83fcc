"""Which encoders are taken for vectors that a model has made, by their cosines with some of them.

    python -m experiments.acceptance --data DATA --boxes BOXES --checkpoints CHECKPOINTS

CHECKPOINTS has a folder of Sentence Transformers for each model but all-MiniLM-L6-v2, and BOXES
what `swiftlet export` made of it (experiments/own_vectors.py says where they are from).
"""

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from experiments.indexes import SPLITS
from export.quality import Collection
from measuring.experiment import Experiment, Found, Run, settings_beside
from measuring.results import Figures
from swiftlet.encoders import DEFAULT_ENCODER, find_shipped, torch_weights
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.index.acceptance import LEAST_COSINE, MEAN_COSINE, some_of
from swiftlet.index.documents.passages import encoder_text
from swiftlet.types import Embeddings
from training.distillation.batches import encode_by_length
from training.model.towers import Tower, TowerSettings

SETTINGS = settings_beside(__file__)
COLLECTION: str = SETTINGS["collection"]
EXPERIMENT = Experiment("acceptance", __doc__, [COLLECTION], ["torch", "onnxruntime"])


def runs(_options: Namespace) -> list[list[Run]]:
    """Each model with each encoder that is tried; one stage, in the order of the settings."""
    return [[(model, name) for model, of in SETTINGS["models"].items() for name in of["tried"]]]


def texts_of(options: Namespace) -> list[str]:
    """The texts that an encoder is tried on: spread over the collection, and the longest ones."""
    documents = Collection.read(options.data / COLLECTION, SPLITS[COLLECTION]).documents
    texts = [encoder_text(each.title, each.text) for each in documents[: SETTINGS["sample"]]]
    return some_of(texts, np.zeros((len(texts), 1), np.float32))[0]


def by_torch(options: Namespace, model: str, texts: list[str], **changes: Any) -> Embeddings:
    """Vectors (n, dim) of length 1 by the model in fp32, perhaps with another setting."""
    place = Path(options.checkpoints) / model
    tower = Tower.load(
        TowerSettings(torch_weights() if model == DEFAULT_ENCODER.name else place, **changes)
    ).eval()
    with torch.inference_mode():
        found = encode_by_length(tower, tower, texts, torch.device("cpu"))
    return np.asarray(functional.normalize(found, dim=-1))


def figures_of(options: Namespace, model: str, name: str) -> Figures:
    """The cosines of an encoder's vectors of texts with those of the model in fp32."""
    of, texts = SETTINGS["models"][model], texts_of(options)
    prompt, change = of.get("prompt", ""), of["tried"][name]
    file = options.work / f"{model}.npy"
    if not file.exists():
        np.save(file, by_torch(options, model, [prompt + each for each in texts]))
    expected = np.load(file)
    if "encoder" in change:
        box = Path(options.boxes) / change["encoder"]
        place = box if box.is_dir() else find_shipped(Path(change["encoder"]))
        found = OnnxEncoder.load(place, role="passage").encode(texts)
    else:
        prompt = change.get("prompt", prompt)
        others = {key: value for key, value in change.items() if key not in {"prompt", "right"}}
        found = by_torch(options, model, [prompt + each for each in texts], **others)
    cosines = np.einsum("ij,ij->i", found, expected)
    return {"texts": len(texts), "mean": float(cosines.mean()), "least": float(cosines.min())}


def collected(_options: Namespace, found: Found) -> Figures:
    """The rows of the page, with whether each is taken and whether it should be."""
    rows = []
    for (model, name), figures in found.items():
        taken = figures["mean"] >= MEAN_COSINE and figures["least"] >= LEAST_COSINE
        right = SETTINGS["models"][model]["tried"][name].get("right", False)
        rows.append({"model": model, "name": name, "taken": taken, "right": right, **figures})
    return {"rows": rows, "bounds": {"mean": MEAN_COSINE, "least": LEAST_COSINE}}


if __name__ == "__main__":
    EXPERIMENT.main(runs, figures_of, collected, boxes=Path("boxes"), checkpoints=Path("models"))
