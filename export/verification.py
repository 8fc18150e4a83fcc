"""Measures an encoder directory again, against the model that it was exported from."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from export.encoder_directory import Progress, export_encoder
from export.latency import measure_latencies, texts_of_length
from export.parity import measure_parity, torch_reference
from export.quality import Collection, QualityChange, exact_quality
from export.report import EncoderReport, VariantReport
from export.source import Source, load_source
from swiftlet.encoders.encoder import MODEL_FILES, OnnxEncoder, Precision
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
    progress: Progress | None = None,
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
    report = progress or (lambda _work: None)
    manifest = read_manifest(directory, "encoder")
    settings = _settings(directory, manifest, pooling=pooling, max_tokens=max_tokens)
    chosen = precisions or [name for name, file in MODEL_FILES.items() if file in manifest.files]
    encoders = {name: OnnxEncoder.load(directory, precision=name) for name in chosen}
    default = OnnxEncoder.load(directory, verify=False).precision
    judged = None if collection is None else Collection.read(collection, split)
    report("Loading the model")
    source = load_source(model, **settings)
    _check_space(model, source, directory, manifest)
    report("Encoding with torch")
    reference = torch_reference(source, next(iter(encoders.values())).tokenizer)
    parities = {name: measure_parity(encoder, reference) for name, encoder in encoders.items()}
    qualities = {}
    if judged is not None:
        report(f"Comparing int8 with fp32 on {judged.name}")
        qualities = _qualities(encoders, model, settings, judged)
    seconds: dict[Precision, dict[int, dict[int, float]]] = {name: {} for name in encoders}
    texts = texts_of_length(source.tokenizer_json)
    for threads in dict.fromkeys((1, available_processors())):
        report(f"Measuring latency on {threads} thread{'s' * (threads > 1)}")
        threaded = {
            name: OnnxEncoder.load(directory, precision=name, verify=False, threads=threads)
            for name in encoders
        }
        for name, of_length in measure_latencies(threaded, texts).items():
            seconds[name][threads] = of_length
    variants = (
        VariantReport(
            precision=name,
            size_bytes=manifest.files[MODEL_FILES[name]].size_bytes,
            parity=parities[name],
            quality=qualities.get(name),
            seconds=seconds[name],
        )
        for name in encoders
    )
    return EncoderReport(tuple(variants), default)


def _settings(directory: Path, manifest: Manifest, **requested: Any) -> dict[str, Any]:
    """The settings of the export; refuses other settings."""
    settings = {}
    for name, wanted in requested.items():
        found = manifest.details.get(name)
        if wanted is not None and found is not None and wanted != found:
            raise InvalidArgumentError(
                f"{name} {wanted!r} contradicts {directory}, which was exported with {found!r}"
            )
        settings[name] = wanted or found
    if settings["pooling"] not in POOLINGS:
        # The model defines any other pooling.
        settings["pooling"] = None
    return settings


def _check_space(model: str | Path, source: Source, directory: Path, manifest: Manifest) -> None:
    trained = trained_encoder(model)
    space = embedding_space(source.model) if trained is None else trained.embedding_space
    if (space, source.dim) != (manifest.embedding_space, manifest.dim):
        raise EmbeddingSpaceMismatch(
            f"{directory} is of the embedding space {manifest.embedding_space[:12]} with "
            f"{manifest.dim} dimensions, but {model} of {space[:12]} with {source.dim}: name the "
            "model that it was exported from"
        )


def _qualities(
    encoders: Mapping[Precision, OnnxEncoder],
    model: str | Path,
    settings: Mapping[str, Any],
    judged: Collection,
) -> dict[Precision, QualityChange]:
    quantised = {name: encoder for name, encoder in encoders.items() if name != "fp32"}
    if "fp32" in encoders:
        fp32 = exact_quality(encoders["fp32"], judged)
    else:
        with tempfile.TemporaryDirectory() as folder:
            export_encoder(model, Path(folder) / "fp32", precisions=["fp32"], **settings)
            fp32 = exact_quality(OnnxEncoder.load(Path(folder) / "fp32"), judged)
    return {
        name: QualityChange(judged.name, judged.split, fp32, exact_quality(encoder, judged))
        for name, encoder in quantised.items()
    }
