"""A torch encoder to an encoder directory."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from export.canonical import canonical_texts, write_canonical
from export.errors import ExportError
from export.graph import OPSET, OUTPUT_NAME, export_graph
from export.parity import (
    SMALLEST_FP32_COSINE,
    Parity,
    Reference,
    measure_parity,
    torch_reference,
)
from export.quality import METRIC, Collection, exact_quality
from export.quantisation import quantise
from export.source import PoolingMode, Source, load_source
from retrieval.encoder import (
    CANONICAL_FILE,
    MODEL_FILES,
    TOKENIZER_FILE,
    OnnxEncoder,
    Precision,
)
from retrieval.errors import InvalidArgumentError
from retrieval.manifest import Manifest, describe_files, write_manifest
from retrieval.publication import check_target, published
from retrieval.tokenizer import Tokenizer
from training.fingerprint import embedding_space
from training.trained import trained_encoder

Progress = Callable[[str], None]
"""Told each stage as it begins."""


def export_encoder(
    model: str | Path,
    out: Path,
    *,
    name: str | None = None,
    max_tokens: int | None = None,
    pooling: PoolingMode | None = None,
    precisions: Sequence[Precision] = ("fp32", "int8"),
    overwrite: bool = False,
    collection: Path | None = None,
    split: str = "test",
    origin: str | None = None,
    space: str | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Export `model` and publish the encoder directory `out`, whole or not at all.

    :param model: A Sentence Transformers directory, or any Hugging Face checkpoint with `pooling`;
        or the name of either on the hub.
    :param name: What the encoder is called; by default as its directory or on the hub, or after the
        training run that made it.
    :param max_tokens: Texts are cut after so many tokens; by default what the model says.
    :param precisions: Which models `out` shall hold.
    :param collection: A BEIR folder on whose `split` the nDCG@10 of int8 is compared with fp32's.
    :param origin: Where the weights come from, for the manifest; by default as `name`.
    :param space: The embedding space of the document encoder that this query encoder was trained
        to; by default what the training run that made `model` says, or else its own fingerprint.
    :raises InvalidArgumentError: When an argument is out of range, or `out` must not be written.
    :raises ModelError: When `model` cannot be loaded.
    :raises ArtefactError: When `model` is no longer what the training run made.
    :raises ExportError: When `model` cannot be exported, or the fp32 graph is not within a cosine
        of 0.99999 of torch on every text.
    :raises CollectionError: When the collection is bad.
    :raises StorageError: When the file system refuses.
    """
    say = progress or _ignore
    precisions = _checked(precisions)
    check_target(out, overwrite=overwrite)
    judged = None if collection is None else Collection.read(collection, split)
    say("Loading the model")
    trained = trained_encoder(model)
    source = load_source(model, pooling=pooling, max_tokens=max_tokens)
    if trained is not None:
        name, origin = name or trained.name, origin or trained.name
        space = space or trained.embedding_space
    with published(out, overwrite=overwrite) as directory:
        export = _Export(directory, source, space or embedding_space(source.model))
        say("Encoding with torch")
        (directory / TOKENIZER_FILE).write_text(source.tokenizer_json, "utf-8")
        reference = torch_reference(source, Tokenizer.load(directory / TOKENIZER_FILE))
        say("Exporting the graph")
        input_names, parity = export.write_fp32(reference)
        if "int8" in precisions:
            say("Quantising")
            parity |= export.write_int8(reference)
            if judged is not None:
                say(f"Comparing int8 with fp32 on {judged.name}")
                parity["int8"] |= export.compare(judged)
        if "fp32" not in precisions:
            (directory / MODEL_FILES["fp32"]).unlink()
        say("Writing the encoder")
        encoders = {precision: export.open(precision) for precision in precisions}
        texts = canonical_texts(Tokenizer.load(directory / TOKENIZER_FILE))
        write_canonical(directory / CANONICAL_FILE, texts, encoders)
        manifest = export.manifest(
            {
                "name": name or source.name,
                "source": origin or source.name,
                "max_tokens": source.max_tokens,
                "pooling": source.pooling,
                "input_names": input_names,
                "output_name": OUTPUT_NAME,
                "opset": OPSET,
                "precisions": list(precisions),
                "parity": parity,
                "made_with": {
                    package: version(package)
                    for package in ("torch", "transformers", "optimum-onnx", "onnxruntime")
                },
            }
        )
        write_manifest(directory, manifest)
    return manifest


class _Export:
    """The working directory of one export."""

    def __init__(self, directory: Path, source: Source, space: str) -> None:
        self._directory = directory
        self._source = source
        self._space = space

    def write_fp32(self, reference: Reference) -> tuple[list[str], dict[str, dict[str, Any]]]:
        """Write the fp32 graph; its inputs, and its parity as the manifest has it."""
        measured: list[Parity] = []

        def is_right(_path: Path) -> bool:
            measured.append(measure_parity(self.open("fp32"), reference))
            return measured[-1].min_cosine >= SMALLEST_FP32_COSINE

        path = self._directory / MODEL_FILES["fp32"]
        try:
            input_names = export_graph(self._source.model, path, is_right=is_right)
        except ExportError as error:
            if not measured:
                raise
            raise ExportError(
                f"{error}: the smallest cosine is {measured[-1].min_cosine:.6f}, at least "
                f"{SMALLEST_FP32_COSINE} is expected"
            ) from error
        return input_names, {"fp32": _rounded(measured[-1])}

    def write_int8(self, reference: Reference) -> dict[str, dict[str, Any]]:
        """Write the int8 graph; its parity as the manifest has it."""
        fp32 = self.open("fp32")
        feeds = []
        for text in reference.texts:
            ids = np.array([fp32.tokenise(text)], dtype=np.int64)
            feeds.append({"input_ids": ids, "attention_mask": np.ones_like(ids)})
        quantise(
            self._directory / MODEL_FILES["fp32"], self._directory / MODEL_FILES["int8"], feeds
        )
        return {"int8": _rounded(measure_parity(self.open("int8"), reference))}

    def compare(self, collection: Collection) -> dict[str, Any]:
        """nDCG@10 of both precisions on `collection`, and the change."""
        fp32, int8 = (
            round(exact_quality(self.open(precision), collection), 4)
            for precision in ("fp32", "int8")
        )
        return {
            METRIC: {
                "collection": collection.name,
                "split": collection.split,
                "fp32": fp32,
                "int8": int8,
                "change": round(int8 - fp32, 4),
            }
        }

    def open(self, precision: Precision) -> OnnxEncoder:
        """The encoder as it stands, under a manifest that the final one replaces."""
        write_manifest(self._directory, self.manifest({}))
        return OnnxEncoder.load(self._directory, precision=precision, verify=False)

    def manifest(self, details: dict[str, Any]) -> Manifest:
        """The manifest of the files that are there."""
        names = [*MODEL_FILES.values(), TOKENIZER_FILE, CANONICAL_FILE]
        present = [name for name in names if (self._directory / name).is_file()]
        return Manifest(
            kind="encoder",
            dim=self._source.dim,
            embedding_space=self._space,
            files=describe_files(self._directory, present),
            created_by=f"swiftlet {version('swiftlet-retrieval')}",
            details=details,
        )


def _checked(precisions: Sequence[Precision]) -> tuple[Precision, ...]:
    if not precisions or not set(precisions) <= MODEL_FILES.keys():
        raise InvalidArgumentError(
            f"precisions {list(precisions)} are not known: choose among {', '.join(MODEL_FILES)}"
        )
    return tuple(precision for precision in MODEL_FILES if precision in precisions)


def _rounded(parity: Parity) -> dict[str, Any]:
    return {
        name: round(value, 6) if isinstance(value, float) else value
        for name, value in asdict(parity).items()
    }


def _ignore(_stage: str) -> None:
    pass
