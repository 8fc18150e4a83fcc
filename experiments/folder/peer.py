"""Semble, which indexes a folder by static vectors and BM25, on the files of `swiftlet up`.

It has an environment of its own. Its model is on a hub alone, so it gets the vectors and the
tokenizer of the look-up encoder, which also makes the first index of `swiftlet up`.
"""

import json
import os
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any

import numpy as np
import onnx

from experiments.folder.first import SETTINGS, as_files
from experiments.indexes import METRIC
from measuring.results import Figures
from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.encoders.encoder import MODEL_FILES, TOKENIZER_FILE
from swiftlet.evaluation.metrics import evaluate_per_query

VERSION = "0.7.0"
_THERE = Path(__file__).with_name("in_semble.py")


def of_semble(options: Namespace, name: str, work: Path) -> Figures:
    """Times of Semble from the start of its process, and the quality of its search for files."""
    found = as_files(options, name, work / "folder")
    python = environment(Path(options.work, "semble"))
    _write_vectors(work)
    queries = {query.query_id: query.text for query in found.queries}
    (work / "queries.json").write_text(json.dumps(queries))
    _in(python, "model", work)
    began = monotonic()
    timed: Figures = _in(python, "search", work, SETTINGS["timed"])
    run = json.loads((work / "run.json").read_text())
    scores = {query: {file: 1 / rank for rank, file in enumerate(files, 1)}
              for query, files in run.items()}  # fmt: skip
    values = evaluate_per_query(scores, found.qrels, [METRIC])[METRIC]
    return timed | {"answered": timed["answered"] - began, "quality": fmean(values.values())}


def environment(place: Path) -> Path:
    """The Python of an environment that has Semble, which is made once."""
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        packages = [f"{python}", "-m", "pip", "install", "-qq", f"semble=={VERSION}"]
        try:
            subprocess.run(packages, check=True)
        except BaseException:
            shutil.rmtree(place)
            raise
    return python


def _write_vectors(place: Path) -> None:
    """Write what the look-up encoder is made of: a vector for each token, and the tokenizer."""
    graph = onnx.load(LOOKUP_QUERY_ENCODER / MODEL_FILES["int8"]).graph
    table = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    vectors = table["vectors_rows"] * table["vectors_scales"]
    np.save(place / "vectors.npy", vectors.astype(np.float32))
    shutil.copy(LOOKUP_QUERY_ENCODER / TOKENIZER_FILE, place)


def _in(python: Path, step: str, work: Path, *arguments: int) -> Any:
    cores = f"{len(os.sched_getaffinity(0))}"
    settings = {"OMP_NUM_THREADS": cores, "SEMBLE_INDEX_WORKERS": cores,
                "SEMBLE_CACHE_LOCATION": f"{work / 'cache'}"}  # fmt: skip
    words = [*map(str, (python, _THERE, step, work, *arguments))]
    said = subprocess.run(
        words, env={**os.environ, **settings}, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    return json.loads(said or "null")
