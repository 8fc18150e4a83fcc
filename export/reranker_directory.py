"""Exports a torch cross-encoder to a re-ranker's directory."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import torch

from export.canonical import SENTENCES
from export.encoder_directory import Progress
from export.errors import ExportError
from export.graphs.edits import OPSET
from export.graphs.quantisation import prepare, quantise_dynamically
from export.graphs.tracing import LARGEST_BYTES, candidates, keep_one_output
from export.sample_texts import lengths_to_sample, sample_texts
from swiftlet.arguments import number
from swiftlet.encoders.encoder import (
    CANONICAL_FILE,
    MODEL_FILES,
    TOKENIZER_FILE,
    Precision,
    open_session,
)
from swiftlet.encoders.reranker import KIND, OnnxReranker, open_tokenizer
from swiftlet.errors import InvalidArgumentError
from swiftlet.manifest import Manifest, describe_files, write_manifest
from swiftlet.publication import check_target, published
from training.model.cross_encoder import CrossEncoder, Pair
from training.model.loading import find_model
from training.model.quiet import quiet
from training.model.towers import TowerSettings

PRECISIONS: tuple[Precision, ...] = ("fp32", "int8")
LARGEST_FP32_CHANGE = 1e-3
"""An fp32 graph with a greater change of a score does not compute the same function."""
SMALLEST_CORRELATION = 0.99
"""With a smaller one between int8 and torch, fp32 is the default."""
_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class ScoreParity:
    """How the scores of a graph differ from torch's, over pairs of all lengths."""

    num_pairs: int
    largest_change: float
    correlation: float


def export_reranker(
    model: str | Path,
    out: Path,
    *,
    name: str | None = None,
    max_tokens: int | None = None,
    precisions: Sequence[Precision] | None = None,
    weight: float | None = None,
    overwrite: bool = False,
    progress: Progress = lambda _work: None,
) -> Manifest:
    """Export a cross-encoder and write the directory `out`, completely or not at all.

    :param model: A cross-encoder of Hugging Face or Sentence Transformers with one score for a
        pair: a directory, or its name on the hub.
    :param name: The name of the re-ranker; by default that of its directory or on the hub.
    :param max_tokens: Pairs are truncated to this many tokens; by default the model's own setting.
    :param precisions: "fp32", "int8" or both, which is the default.
    :param weight: The weight of its scores beside those of a search, from 0 to 1; by default the
        one that its training has chosen, or else 1.
    :raises InvalidArgumentError: When an argument is out of range, or `out` must not be written.
    :raises ModelError: When `model` cannot be loaded, or is no cross-encoder of this kind.
    :raises ExportError: When it cannot be exported, or no graph computes the same as torch.
    :raises StorageError: When the file system refuses.
    """
    wanted = tuple(precisions or PRECISIONS)
    if unknown := [each for each in wanted if each not in PRECISIONS]:
        raise InvalidArgumentError(
            f"a re-ranker has no {unknown[0]} model: choose among {', '.join(PRECISIONS)}"
        )
    if weight is not None:
        number("weight", weight, least=0, most=1)
    check_target(out, overwrite=overwrite, kind=KIND)
    progress("Loading the model")
    folder = find_model(model)
    # The optimiser of ONNX Runtime recognises only eager attention.
    settings = TowerSettings(model=folder, max_tokens=max_tokens)
    source = CrossEncoder.load(settings, attention="eager").eval()
    pairs = _sample(source)
    progress("Scoring with torch")
    expected = _torch_scores(source, pairs)
    with published(out, overwrite=overwrite, kind=KIND) as directory:
        (directory / TOKENIZER_FILE).write_text(source.tokenizer.to_str(), "utf-8")
        progress("Exporting the graph")
        parity = {"fp32": _write_fp32(source, directory, pairs, expected)}
        if "int8" in wanted:
            progress("Quantising")
            fp32 = _open(directory, "fp32")
            inputs = [fp32.inputs(pair.query, pair.text) for pair in pairs]
            prepared = prepare(directory / MODEL_FILES["fp32"], inputs)
            quantise_dynamically(prepared, directory / MODEL_FILES["int8"])
            parity["int8"] = _parity(_open(directory, "int8"), pairs, expected)
        if "fp32" not in wanted:
            (directory / MODEL_FILES["fp32"]).unlink()
        canonical = [*pairwise(SENTENCES), (SENTENCES[0], " ".join(SENTENCES * 20))]
        scores = {
            precision: [
                round(_open(directory, precision).logit(*pair), _DECIMALS) for pair in canonical
            ]
            for precision in wanted
        }
        (directory / CANONICAL_FILE).write_text(
            json.dumps({"pairs": canonical, "scores": scores}, ensure_ascii=False), "utf-8"
        )
        is_close = "int8" in wanted and parity["int8"].correlation >= SMALLEST_CORRELATION
        manifest = Manifest(
            kind=KIND,
            dim=1,
            embedding_space="",
            files=describe_files(
                directory,
                [TOKENIZER_FILE, CANONICAL_FILE, *(MODEL_FILES[each] for each in wanted)],
            ),
            created_by=f"swiftlet {version('swiftlet-retrieval')}",
            details={
                "name": name or (folder.resolve().name if Path(model).is_dir() else str(model)),
                "max_tokens": source.max_tokens,
                "weight": source.weight if weight is None else weight,
                "opset": OPSET,
                "precisions": list(wanted),
                "default_precision": "int8" if is_close or wanted == ("int8",) else "fp32",
                "parity": {each: asdict(parity[each]) for each in wanted},
            },
        )
        write_manifest(directory, manifest)
    return manifest


def _sample(source: CrossEncoder) -> list[Pair]:
    """Pairs from a few tokens to more than the model reads, of random words and of sentences."""
    content = source.tokenizer.to_str()
    special = source.tokenizer.num_special_tokens_to_add(is_pair=True)
    lengths = lengths_to_sample(source.max_tokens, special)
    texts = sample_texts(content, [*lengths, 2 * source.max_tokens])
    queries = sample_texts(content, [special + 1 + length % 16 for length in lengths] + [8], seed=1)
    pairs = [Pair(*each) for each in zip(queries, texts, strict=True)]
    return [*pairs, *(Pair(*each) for each in pairwise(SENTENCES)), Pair(SENTENCES[0], "")]


def _torch_scores(source: CrossEncoder, pairs: Sequence[Pair]) -> np.ndarray:
    with torch.no_grad():
        return np.array([source(source.tokenise([pair])).item() for pair in pairs])


def _write_fp32(
    source: CrossEncoder, directory: Path, pairs: Sequence[Pair], expected: np.ndarray
) -> ScoreParity:
    """Write the graph with as many operators fused as keep the scores of torch."""
    from optimum.exporters.onnx import onnx_export_from_model

    size_bytes = sum(weight.nelement() * 4 for weight in source.parameters())
    name = type(source.model).__name__
    if size_bytes > LARGEST_BYTES:
        raise ExportError(
            f"the model has {size_bytes / 1e9:.1f} GB of weights, but one ONNX file holds "
            f"{LARGEST_BYTES / 1e9:.0f} GB"
        )
    with tempfile.TemporaryDirectory() as folder, quiet():
        try:
            onnx_export_from_model(
                source.model,
                Path(folder),
                opset=OPSET,
                task="text-classification",
                do_validation=False,
            )
            exported = onnx.load_model(Path(folder) / "model.onnx")
        except Exception as error:  # torch, optimum and onnx raise many types
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ExportError(f"a {name} cannot be exported to ONNX: {reason}") from error
        keep_one_output(exported, "logits", "score")
        plain = Path(folder) / "plain.onnx"
        onnx.save_model(exported, plain)
        for graph in candidates(plain, source.model.config):
            onnx.save_model(graph, directory / MODEL_FILES["fp32"])
            parity = _parity(_open(directory, "fp32"), pairs, expected)
            if parity.largest_change <= LARGEST_FP32_CHANGE:
                return parity
    raise ExportError(
        f"the exported {name} does not compute the same as torch: a score differs by "
        f"{parity.largest_change:.4f}, at most {LARGEST_FP32_CHANGE} is expected"
    )


def _open(directory: Path, precision: Precision) -> OnnxReranker:
    unnamed = Manifest(KIND, 1, "", {}, "")
    session = open_session(directory / MODEL_FILES[precision], 1)
    return OnnxReranker(session, open_tokenizer(directory / TOKENIZER_FILE), unnamed, precision)


def _parity(reranker: OnnxReranker, pairs: Sequence[Pair], expected: np.ndarray) -> ScoreParity:
    found = np.array([reranker.logit(pair.query, pair.text) for pair in pairs])
    # NaN counts as the greatest change.
    changes = np.nan_to_num(np.abs(found - expected), nan=np.inf)
    correlation = float(np.nan_to_num(np.corrcoef(found, expected)[0, 1]))
    return ScoreParity(len(pairs), float(changes.max()), correlation)
