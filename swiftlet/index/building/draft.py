"""An artefact with a corpus and its embeddings: its working directory, manifest, publication."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from swiftlet import disk
from swiftlet.index.building.space import Space
from swiftlet.index.documents.writer import StoredCorpus
from swiftlet.index.vectors.embeddings_file import EmbeddingsFile
from swiftlet.manifest import Manifest, describe_files, write_manifest
from swiftlet.progress import Progress
from swiftlet.publication import check_target, discard, locked_working_directory, publish


@contextmanager
def draft(
    out: Path,
    kind: str,
    *,
    width: int,
    encodes: bool,
    overwrite: bool,
    progress: Progress,
    keeps: Callable[[BaseException], bool] = lambda _error: True,
) -> Iterator[tuple[Path, EmbeddingsFile]]:
    """An empty directory, which becomes the artefact `out` at the end, and a file of embeddings.

    :param width: The numbers of an embedding.
    :param encodes: Whether the embeddings are made now. Making them takes most of the time, so the
        next run after an error or an interruption begins with them.
    :param keeps: Whether the next run can begin with them after an error.
    :raises InvalidArgumentError: As `check_target`.
    :raises ArtefactError: When another process is writing the same artefact.
    :raises StorageError: When the file system refuses.
    """
    with locked_working_directory(out) as working, disk.storage_errors(out):
        artefact = working / "artefact"
        file = EmbeddingsFile(working / ("embeddings.f32" if encodes else "copied.f32"), width)
        try:
            # Another process may have published since.
            check_target(out, overwrite=overwrite, kind=kind)
            disk.remove_tree(artefact, ignore_errors=True)
            disk.make_directory(artefact)
            if not encodes:
                disk.remove(file.path, missing_ok=True)
            yield artefact, file
            publish(artefact, out)
        except BaseException as error:
            if encodes and len(file) and keeps(error):
                disk.remove_tree(artefact, ignore_errors=True)
                progress.note(f"the embeddings so far are kept in {working} for the next run")
            else:
                discard(working)
            raise
        discard(working)


def describe(
    artefact: Path,
    kind: str,
    space: Space,
    files: Sequence[str],
    corpus: StoredCorpus,
    details: Mapping[str, Any],
) -> Manifest:
    """Write the manifest of a directory with the embeddings of a corpus, when it has all `files`.

    :raises StorageError: When the file system refuses.
    """
    manifest = Manifest(
        kind=kind,
        dim=space.dim,
        embedding_space=space.embedding_space,
        metric=space.metric,
        normalised=space.normalised,
        files=describe_files(artefact, files),
        created_by=f"swiftlet {version('swiftlet-retrieval')}",
        details={
            **details,
            "num_documents": corpus.num_documents,
            "num_passages": corpus.num_passages,
        },
    )
    write_manifest(artefact, manifest)
    return manifest
