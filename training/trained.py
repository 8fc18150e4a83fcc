"""What training leaves: a directory with encoders of one embedding space, named by tower."""

from dataclasses import dataclass
from pathlib import Path

from retrieval.errors import InvalidArgumentError
from retrieval.manifest import FILE_NAME, read_manifest, verify_files

KIND = "model"
QUERY_ENCODER = "query_encoder"
TOWERS = (QUERY_ENCODER, "document_encoder")


@dataclass(frozen=True, slots=True)
class TrainedEncoder:
    """An encoder that belongs to another: its `name`, and the space that both embed into."""

    name: str
    embedding_space: str


def trained_encoder(model: str | Path) -> TrainedEncoder | None:
    """What the directory that `model` lies in says about it; None if no training run made it.

    :raises InvalidArgumentError: When `model` is the directory of the run itself.
    :raises ManifestError: When the manifest there cannot be trusted.
    :raises CorruptArtefactError: When a file was altered since.
    """
    folder = Path(model)
    if not folder.is_dir():
        return None
    if _is_run(folder):
        encoders = [str(folder / tower) for tower in TOWERS if (folder / tower).is_dir()]
        raise InvalidArgumentError(
            f"{folder} is a training run, not an encoder: take {' or '.join(encoders)}"
        )
    # Not by its name as given, which may be "." or a link.
    folder = folder.resolve()
    run = folder.parent
    if folder.name not in TOWERS or not _is_run(run):
        return None
    manifest = read_manifest(run)
    verify_files(run, manifest)
    return TrainedEncoder(f"{run.name}-{folder.name.replace('_', '-')}", manifest.embedding_space)


def _is_run(folder: Path) -> bool:
    return (folder / FILE_NAME).is_file() and read_manifest(folder).kind == KIND
