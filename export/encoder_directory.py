"""Exports a torch encoder to an encoder directory."""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from export.calibration import calibration_texts, first_texts
from export.canonical import canonical_texts, write_canonical
from export.graphs.edits import OPSET, OUTPUT_NAME
from export.parity import torch_reference
from export.quality import Collection
from export.source import Source, load_source
from export.variants import Variants
from export.vocabulary import with_vocabulary_of
from swiftlet.encoders.encoder import CANONICAL_FILE, MODEL_FILES, TOKENIZER_FILE, Precision, Role
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.errors import InvalidArgumentError
from swiftlet.manifest import Manifest, write_manifest
from swiftlet.publication import check_target, published
from training.model.fingerprint import embedding_space
from training.model.trained import trained_encoder

Progress = Callable[[str], None]
"""Called with the name of each stage when it begins."""

_MOST_TEXTS = 200_000


def export_encoder(
    model: str | Path,
    out: Path,
    *,
    name: str | None = None,
    max_tokens: int | None = None,
    pooling: str | None = None,
    precisions: Sequence[Precision] | None = None,
    overwrite: bool = False,
    calibrate: Path | None = None,
    collection: Path | None = None,
    split: str = "test",
    origin: str | None = None,
    space: str | None = None,
    role: Role | None = None,
    prompts: Mapping[Role, str] | None = None,
    dim: int | None = None,
    vocabulary: Path | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Export `model` and write the encoder directory `out`, completely or not at all.

    :param model: A Sentence Transformers directory, or any Hugging Face checkpoint with `pooling`;
        or the name of either on the hub.
    :param name: The name of the encoder; by default that of its directory, of the model on the hub,
        or of the training run that made it.
    :param max_tokens: Texts are truncated to this many tokens; by default the model's own setting.
    :param precisions: The precisions to write; None writes all, for a look-up encoder fp32 and
        int8. The default among them is chosen by parity, quality and latency.
    :param calibrate: Queries or a corpus for calibration, in addition to texts of random words.
    :param collection: A BEIR folder. The nDCG@10 of int8 and fp32 are compared on its `split`.
    :param origin: The origin of the weights, for the manifest; by default the name of the model.
    :param space: The embedding space of the document encoder that this query encoder was trained
        for; by default that of the training run that made `model`, or else its own fingerprint.
    :param role: What the encoder reads, if it is one of a pair.
    :param prompts: What stands before queries and before passages; by default the model's own.
    :param dim: Keep the first numbers of an embedding alone. The embedding space is another one,
        unless it is given.
    :param vocabulary: Queries or a corpus. Tokens that are not in the first 200,000 of these texts
        are left out, unless they are single characters; the embedding space stays.
    :raises InvalidArgumentError: When an argument is out of range, or `out` must not be written.
    :raises ModelError: When `model` cannot be loaded.
    :raises ArtefactError: When `model` was altered after the training run.
    :raises ExportError: When `model` cannot be exported, or the cosine between fp32 and torch is
        below 0.99999 on any text.
    :raises CollectionError: When the collection or the texts are bad.
    :raises StorageError: When the file system refuses.
    """
    report = progress or _ignore
    check_target(out, overwrite=overwrite, kind="encoder")
    judged = None if collection is None else Collection.read(collection, split)
    texts = [] if calibrate is None else calibration_texts(calibrate)
    kept = None if vocabulary is None else first_texts(vocabulary, _MOST_TEXTS)
    report("Loading the model")
    trained = trained_encoder(model)
    source = load_source(model, pooling=pooling, max_tokens=max_tokens, prompts=prompts, dim=dim)
    precisions = _chosen(precisions, source)
    if trained is not None:
        name, origin = name or trained.name, origin or trained.name
        space = space or trained.embedding_space
        role = role or trained.role
    if space is None:
        space = embedding_space(source.model)
        if dim is not None:
            space = sha256(f"{space} {dim}".encode()).hexdigest()
    if kept is not None:
        source = with_vocabulary_of(source, kept)
    with published(out, overwrite=overwrite, kind="encoder") as directory:
        report("Encoding with torch")
        (directory / TOKENIZER_FILE).write_text(source.tokenizer_json, "utf-8")
        tokenizer = Tokenizer.load(directory / TOKENIZER_FILE)
        reference = torch_reference(source, tokenizer)
        variants = Variants(directory, source, reference, space)
        report("Exporting the graph")
        input_names = variants.write_fp32()
        if set(precisions) != {"fp32"}:
            report("Quantising")
            variants.quantise(precisions, texts)
            if judged is not None:
                report(f"Comparing int8 with fp32 on {judged.name}")
                variants.compare(judged)
        if "fp32" not in precisions:
            (directory / MODEL_FILES["fp32"]).unlink()
        report("Choosing the default precision")
        default = variants.default_precision(precisions)
        report("Writing the encoder")
        encoders = {precision: variants.open(precision) for precision in precisions}
        write_canonical(directory / CANONICAL_FILE, canonical_texts(tokenizer), encoders)
        manifest = variants.manifest(
            {
                "name": name or source.name,
                "source": origin or source.name,
                **({} if role is None else {"role": role}),
                "max_tokens": source.max_tokens,
                "pooling": source.pooling,
                "input_names": input_names,
                "output_name": OUTPUT_NAME,
                "opset": OPSET,
                "precisions": list(precisions),
                "default_precision": default,
                "parity": variants.parity(),
                "made_with": {
                    package: version(package)
                    for package in ("torch", "transformers", "optimum-onnx", "onnxruntime")
                },
            }
        )
        write_manifest(directory, manifest)
    return manifest


def _chosen(precisions: Sequence[Precision] | None, source: Source) -> tuple[Precision, ...]:
    can_have = [each for each in MODEL_FILES if each != "int8_static" or not source.is_lookup]
    if precisions is None:
        return tuple(can_have)
    if not precisions or not set(precisions) <= MODEL_FILES.keys():
        raise InvalidArgumentError(
            f"precisions {list(precisions)} are not known: choose among {', '.join(MODEL_FILES)}"
        )
    if not set(precisions) <= set(can_have):
        raise InvalidArgumentError(
            f"{source.name} is a look-up encoder, which has no activations to calibrate for "
            f"int8_static: choose among {', '.join(can_have)}"
        )
    return tuple(precision for precision in MODEL_FILES if precision in precisions)


def _ignore(_work: str) -> None:
    pass
