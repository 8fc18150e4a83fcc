"""Exports a torch encoder to an encoder directory."""

from dataclasses import replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from export.artefact import canonical_json, canonical_texts, write_artefact
from export.candidates import default_precision, make_candidates
from export.graphs.edits import OPSET, OUTPUT_NAME
from export.quality import Collection
from export.settings import Announce, EncoderSettings, silent
from export.source import load_source
from export.vocabulary import first_texts, with_vocabulary_of
from swiftlet.encoders.encoder import CANONICAL_FILE, MODEL_FILES, TOKENIZER_FILE
from swiftlet.manifest import Manifest
from swiftlet.publication import check_target, published
from training.model.fingerprint import embedding_space
from training.model.trained import trained_encoder


def export_encoder(
    model: str | Path,
    out: Path,
    settings: EncoderSettings | None = None,
    *,
    overwrite: bool = False,
    progress: Announce = silent,
    **options: Any,
) -> Manifest:
    """Export `model` and write the encoder directory `out`, completely or not at all.

    :param model: A Sentence Transformers directory, or any Hugging Face checkpoint with a pooling
        in the settings; or the name of either on the hub.
    :param options: Fields of the settings, which may be given so.
    :raises InvalidArgumentError: When an argument is out of range, or `out` must not be written.
    :raises ModelError: When `model` cannot be loaded.
    :raises ArtefactError: When `model` was altered after the training run.
    :raises ExportError: When `model` cannot be exported, or the cosine between fp32 and torch is
        below 0.99999 on any text.
    :raises CollectionError: When the collection or the texts are bad.
    :raises StorageError: When the file system refuses.
    """
    chosen = replace(settings or EncoderSettings(), **options)
    check_target(out, overwrite=overwrite, kind="encoder")
    collection, vocabulary = chosen.collection, chosen.vocabulary
    judged = None if collection is None else Collection.read(collection, chosen.split)
    kept = None if vocabulary is None else first_texts(vocabulary)
    progress("Loading the model")
    trained = trained_encoder(model)
    source = load_source(
        model,
        pooling=chosen.pooling,
        max_tokens=chosen.max_tokens,
        prompts=chosen.prompts,
        dim=chosen.dim,
    )
    name, origin, space, role = chosen.name, chosen.origin, chosen.space, chosen.role
    if trained is not None:
        name, origin = name or trained.name, origin or trained.name
        space, role = space or trained.embedding_space, role or trained.role
    if space is None:
        space = embedding_space(source.model)
        if chosen.dim is not None:
            space = sha256(f"{space} {chosen.dim}".encode()).hexdigest()
    if kept is not None:
        source = with_vocabulary_of(source, kept)
    with published(out, overwrite=overwrite, kind="encoder") as directory:
        precisions = chosen.chosen_precisions
        measured = make_candidates(source, space, precisions, judged, progress)
        written = {precision: measured[precision] for precision in precisions}
        encoders = {precision: each.encoder for precision, each in written.items()}
        progress("Choosing the default precision")
        default = default_precision(written, source)
        progress("Writing the encoder")
        texts = canonical_texts(measured["fp32"].encoder.tokenizer)
        return write_artefact(
            directory,
            {
                TOKENIZER_FILE: source.tokenizer_json.encode(),
                **{MODEL_FILES[precision]: each.graph for precision, each in written.items()},
                CANONICAL_FILE: canonical_json(texts, encoders),
            },
            kind="encoder",
            dim=source.dim,
            embedding_space=space,
            details={
                "name": name or source.name,
                "source": origin or source.name,
                **({} if role is None else {"role": role}),
                **({} if chosen.weight is None else {"weight": chosen.weight}),
                **source.details,
                "max_tokens": source.max_tokens,
                "pooling": source.pooling,
                "input_names": measured["fp32"].input_names,
                "output_name": OUTPUT_NAME,
                "opset": OPSET,
                "precisions": list(precisions),
                "default_precision": default,
                "parity": {each: found.report.details() for each, found in measured.items()},
                "made_with": {
                    package: version(package)
                    for package in ("torch", "transformers", "optimum-onnx", "onnxruntime")
                },
            },
        )
