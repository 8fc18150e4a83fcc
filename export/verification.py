"""Measures an encoder directory again, against the model that it was exported from."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from export.candidates import make_candidates
from export.latency import measure_latencies, texts_of_length
from export.parity import measure_parity, torch_reference
from export.quality import Collection, QualityChange, exact_quality
from export.report import EncoderReport, VariantReport
from export.settings import Announce, silent
from export.source import Source, load_source
from swiftlet.encoders.encoder import MODEL_FILES, OnnxEncoder, Precision, choose_precision
from swiftlet.errors import EmbeddingSpaceMismatch, InvalidArgumentError
from swiftlet.manifest import Manifest, read_manifest
from swiftlet.processors import available_processors
from training.model.fingerprint import embedding_space
from training.model.poolings import POOLINGS
from training.model.trained import trained_encoder


def verify_encoder(
    model: str | Path,
    directory: Path,
    *,
    pooling: str | None = None,
    max_tokens: int | None = None,
    precisions: Sequence[Precision] | None = None,
    collection: Path | None = None,
    split: str = "test",
    progress: Announce = silent,
) -> EncoderReport:
    """Measure the models in `directory` against `model` without a change to any file.

    Latency is measured on one thread and on all available processors.

    :param pooling: The pooling of the export, which is also the default.
    :param max_tokens: The limit of the export, which is also the default.
    :param precisions: The precisions to measure; by default all in `directory`.
    :param collection: A BEIR folder. The nDCG@10 of int8 and fp32 are compared on its `split`.
    :raises ManifestError: When `directory` is not an encoder.
    :raises CorruptArtefactError: When a file is damaged, or the canonical embeddings drift.
    :raises EmbeddingSpaceMismatch: When `directory` was made from another model.
    :raises InvalidArgumentError: When `directory` lacks one of `precisions` or was exported with
        other settings, or there is no such `model`.
    :raises ModelError: When `model` cannot be loaded.
    :raises ExportError: When the tokens of a text differ.
    :raises CollectionError: When the collection is bad.
    """
    manifest = read_manifest(directory, "encoder")
    pooling = _setting(directory, manifest, "pooling", pooling)
    max_tokens = _setting(directory, manifest, "max_tokens", max_tokens)
    chosen = precisions or [name for name, file in MODEL_FILES.items() if file in manifest.files]
    encoders = {name: OnnxEncoder.load(directory, precision=name) for name in chosen}
    judged = None if collection is None else Collection.read(collection, split)
    progress("Loading the model")
    # The model defines any other pooling.
    own = pooling if pooling in POOLINGS else None
    source = load_source(model, pooling=own, max_tokens=max_tokens)
    _check_space(model, source, directory, manifest)
    progress("Encoding with torch")
    reference = torch_reference(source, next(iter(encoders.values())).tokenizer)
    variants = {
        name: VariantReport(
            precision=name,
            size_bytes=manifest.files[MODEL_FILES[name]].size_bytes,
            parity=measure_parity(encoder, reference),
        )
        for name, encoder in encoders.items()
    }
    if judged is not None:
        progress(f"Comparing int8 with fp32 on {judged.name}")
        exact = encoders.get("fp32")
        if exact is None:
            made = make_candidates(source, manifest.embedding_space, ["fp32"], None, silent)
            exact = made["fp32"].encoder
        fp32 = exact_quality(exact, judged)
        for name in variants.keys() - {"fp32"}:
            found = exact_quality(encoders[name], judged)
            quality = QualityChange(judged.name, judged.split, fp32, found)
            variants[name] = replace(variants[name], quality=quality)
    texts = texts_of_length(source.tokenizer_json)
    for threads in dict.fromkeys((1, available_processors())):
        progress(f"Measuring latency on {threads} thread{'s' * (threads > 1)}")
        threaded = {
            name: OnnxEncoder.load(directory, precision=name, verify=False, threads=threads)
            for name in encoders
        }
        for name, of_length in measure_latencies(threaded, texts).items():
            seconds = {**variants[name].seconds, threads: of_length}
            variants[name] = replace(variants[name], seconds=seconds)
    return EncoderReport(tuple(variants.values()), choose_precision(directory, manifest, None))


def _setting(directory: Path, manifest: Manifest, name: str, wanted: Any) -> Any:
    """A setting of the export; refuses another one."""
    found = manifest.details.get(name)
    if wanted is not None and found is not None and wanted != found:
        raise InvalidArgumentError(
            f"{name} {wanted!r} contradicts {directory}, which was exported with {found!r}"
        )
    return wanted or found


def _check_space(model: str | Path, source: Source, directory: Path, manifest: Manifest) -> None:
    trained = trained_encoder(model)
    space = embedding_space(source.model) if trained is None else trained.embedding_space
    if (space, source.dim) != (manifest.embedding_space, manifest.dim):
        raise EmbeddingSpaceMismatch(
            f"{directory} is of the embedding space {manifest.embedding_space[:12]} with "
            f"{manifest.dim} dimensions, but {model} of {space[:12]} with {source.dim}: name the "
            "model that it was exported from"
        )
