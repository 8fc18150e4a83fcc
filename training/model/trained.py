"""The directory that training writes: the encoders of one embedding space."""

from dataclasses import dataclass
from pathlib import Path

from swiftlet.encoders import DOCUMENT_ENCODER_FOLDER, QUERY_ENCODER_FOLDER
from swiftlet.encoders.encoder import Role
from swiftlet.errors import InvalidArgumentError
from swiftlet.manifest import FILE_NAME, read_manifest, verify_files

KIND = "model"
QUERY_ENCODER = QUERY_ENCODER_FOLDER
TOWERS = (QUERY_ENCODER, DOCUMENT_ENCODER_FOLDER)
MODEL = "cross_encoder"
EXPORTED = "onnx"
"""The folder of the encoders in ONNX."""


@dataclass(frozen=True, slots=True)
class TrainedEncoder:
    """The `name` of an encoder from a training run, its embedding space, and what it reads.

    Without a `role`, it reads both queries and passages.
    """

    name: str
    embedding_space: str
    role: Role | None


def trained_encoder(model: str | Path) -> TrainedEncoder | None:
    """The manifest's entries for the encoder `model`; None if no training run made it.

    :raises InvalidArgumentError: When `model` is the directory of the run itself.
    :raises ManifestError: When the manifest there cannot be trusted.
    :raises CorruptArtefactError: When a file was altered since.
    """
    folder = Path(model)
    if not folder.is_dir():
        return None
    refuse_run(folder)
    # The given name may be "." or a link.
    folder = folder.resolve()
    run = folder.parent
    if folder.name not in TOWERS or not _is_run(run):
        return None
    manifest = read_manifest(run)
    verify_files(run, manifest)
    role: Role | None = "query" if folder.name == QUERY_ENCODER else "passage"
    if role == "passage" and not (run / QUERY_ENCODER).is_dir():
        role = None  # the two encoders are one
    name = f"{run.name}-{folder.name.replace('_', '-')}"
    return TrainedEncoder(name, manifest.embedding_space, role)


def refuse_run(folder: Path) -> None:
    """Check that a folder is no training run, which has models in its folders.

    :raises InvalidArgumentError: When it is one.
    """
    if _is_run(folder):
        models = [f"{folder / name}" for name in (*TOWERS, MODEL) if (folder / name).is_dir()]
        raise InvalidArgumentError(
            f"{folder} is a training run, not a model: take {' or '.join(models)}"
        )


def _is_run(folder: Path) -> bool:
    return (folder / FILE_NAME).is_file() and read_manifest(folder).kind == KIND
