"""Exports a torch cross-encoder to a re-ranker's directory."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from export.artefact import DECIMALS, SENTENCES, write_artefact
from export.errors import ExportError
from export.graphs.edits import OPSET
from export.graphs.fp32 import traced
from export.graphs.quantisation import quantised
from export.parity import one_thread
from export.sample_texts import lengths_to_sample, sample_texts
from export.settings import Announce, RerankerSettings, silent
from swiftlet.encoders.encoder import (
    CANONICAL_FILE,
    MODEL_FILES,
    TOKENIZER_FILE,
    Precision,
    open_session,
)
from swiftlet.encoders.reranker import KIND, OnnxReranker
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.manifest import Manifest
from swiftlet.publication import check_target, published
from training.model.cross_encoder import CrossEncoder, Pair
from training.model.errors import ModelError
from training.model.folders import find_model, is_cross_encoder
from training.model.towers import TowerSettings

LARGEST_FP32_CHANGE = 1e-3
"""An fp32 graph with a greater change of a score does not compute the same function."""
SMALLEST_CORRELATION = 0.99
"""With a smaller one between int8 and torch, fp32 is the default."""

_CANONICAL = [*pairwise(SENTENCES), (SENTENCES[0], " ".join(SENTENCES * 20))]


@dataclass(frozen=True, slots=True)
class ScoreParity:
    """How the scores of a graph differ from torch's, over pairs of all lengths."""

    num_pairs: int
    largest_change: float
    correlation: float


@dataclass(frozen=True, slots=True)
class _Candidate:
    """The graph of a re-ranker in one precision, open, and its parity."""

    graph: bytes
    reranker: OnnxReranker
    parity: ScoreParity


def export_reranker(
    model: str | Path,
    out: Path,
    settings: RerankerSettings | None = None,
    *,
    overwrite: bool = False,
    progress: Announce = silent,
    **options: Any,
) -> Manifest:
    """Export a cross-encoder and write the directory `out`, completely or not at all.

    :param model: A cross-encoder of Hugging Face or Sentence Transformers with one score for a
        pair: a directory, or its name on the hub.
    :param options: Fields of the settings, which may be given so.
    :raises InvalidArgumentError: When an argument is out of range, or `out` must not be written.
    :raises ModelError: When `model` cannot be loaded, or is no cross-encoder of this kind.
    :raises ExportError: When it cannot be exported, or no graph computes the same as torch.
    :raises StorageError: When the file system refuses.
    """
    chosen = replace(settings or RerankerSettings(), **options)
    check_target(out, overwrite=overwrite, kind=KIND)
    progress("Loading the model")
    folder = find_model(model)
    if not is_cross_encoder(folder):
        raise ModelError(f"{folder} is no cross-encoder: export it as an encoder")
    # The optimiser of ONNX Runtime recognises only eager attention.
    loaded = TowerSettings(model=folder, max_tokens=chosen.max_tokens)
    source = CrossEncoder.load(loaded, attention="eager").eval()
    with published(out, overwrite=overwrite, kind=KIND) as directory:
        precisions = chosen.chosen_precisions
        candidates = _make_candidates(source, precisions, progress)
        is_close = "int8" in precisions and (
            precisions == ("int8",) or candidates["int8"].parity.correlation >= SMALLEST_CORRELATION
        )
        scores = {
            each: [round(candidates[each].reranker.logit(*pair), DECIMALS) for pair in _CANONICAL]
            for each in precisions
        }
        canonical = {"pairs": _CANONICAL, "scores": scores}
        return write_artefact(
            directory,
            {
                TOKENIZER_FILE: source.tokenizer.to_str().encode(),
                **{MODEL_FILES[each]: candidates[each].graph for each in precisions},
                CANONICAL_FILE: json.dumps(canonical, ensure_ascii=False).encode(),
            },
            kind=KIND,
            dim=1,
            embedding_space="",
            details={
                "name": chosen.name
                or (folder.resolve().name if Path(model).is_dir() else str(model)),
                "max_tokens": source.max_tokens,
                "weight": source.weight if chosen.weight is None else chosen.weight,
                "opset": OPSET,
                "precisions": list(precisions),
                "default_precision": "int8" if is_close else "fp32",
                "parity": {each: asdict(candidates[each].parity) for each in precisions},
            },
        )


def _make_candidates(
    source: CrossEncoder, precisions: Sequence[Precision], progress: Announce
) -> dict[Precision, _Candidate]:
    """The fp32 graph, with as many operators fused as keep the scores of torch, and int8."""
    pairs = _sample(source)
    progress("Scoring with torch")
    with torch.no_grad(), one_thread():
        expected = np.array([source(source.tokenise([pair])).item() for pair in pairs])
    unwritten, tokenizer = Manifest(KIND, 1, "", {}, ""), Tokenizer(source.tokenizer)

    def measured(precision: Precision, graph: bytes) -> _Candidate:
        session = open_session(graph, 1)
        reranker = OnnxReranker(session, tokenizer, unwritten, precision)
        return _Candidate(graph, reranker, _parity(reranker, pairs, expected))

    progress("Exporting the graph")
    forms = traced(
        source.model, source.model, task="text-classification", exported="logits", output="score"
    )
    for graph in forms:
        fp32 = measured("fp32", graph)
        if fp32.parity.largest_change <= LARGEST_FP32_CHANGE:
            break
    else:
        raise ExportError(
            f"the exported {type(source.model).__name__} does not compute the same as torch: a "
            f"score differs by {fp32.parity.largest_change:.4f}, at most {LARGEST_FP32_CHANGE} is "
            "expected"
        )
    if "int8" not in precisions:
        return {"fp32": fp32}
    progress("Quantising")
    inputs = [fp32.reranker.inputs(pair.query, pair.text) for pair in pairs]
    return {"fp32": fp32, "int8": measured("int8", quantised(graph, inputs))}


def _sample(source: CrossEncoder) -> list[Pair]:
    """Pairs from a few tokens to more than the model reads, of random words and of sentences."""
    content = source.tokenizer.to_str()
    special = source.tokenizer.num_special_tokens_to_add(is_pair=True)
    lengths = lengths_to_sample(source.max_tokens, special)
    texts = sample_texts(content, [*lengths, 2 * source.max_tokens])
    queries = sample_texts(content, [special + 1 + length % 16 for length in lengths] + [8], seed=1)
    pairs = [Pair(*each) for each in zip(queries, texts, strict=True)]
    return [*pairs, *(Pair(*each) for each in pairwise(SENTENCES)), Pair(SENTENCES[0], "")]


def _parity(reranker: OnnxReranker, pairs: Sequence[Pair], expected: np.ndarray) -> ScoreParity:
    found = np.array([reranker.logit(pair.query, pair.text) for pair in pairs])
    # NaN counts as the greatest change.
    changes = np.nan_to_num(np.abs(found - expected), nan=np.inf)
    correlation = float(np.nan_to_num(np.corrcoef(found, expected)[0, 1]))
    return ScoreParity(len(pairs), float(changes.max()), correlation)
