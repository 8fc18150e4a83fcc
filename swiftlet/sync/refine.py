"""Puts the index of the document encoder in the place of one that was made in seconds.

The first index of a folder has the vectors of the look-up encoder, which are of the same space. It
is searched, and follows the folder, while the document encoder reads all passages.
"""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

from swiftlet import disk
from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.encoders.opening import EncoderSpec, Place, encoder_place
from swiftlet.index.building.build import build, build_index, fitting
from swiftlet.index.building.settings import BuildSettings
from swiftlet.index.lexical import AUTO
from swiftlet.index.updates.directory_writer import IndexWriter
from swiftlet.manifest import change_details, read_manifest
from swiftlet.progress import Progress
from swiftlet.publication import discard, locked_working_directory, publish
from swiftlet.sync.ahead import ReadAhead
from swiftlet.sync.folder import Folder
from swiftlet.sync.rounds import FolderReader, FolderSync, Round
from swiftlet.sync.seen import SeenFiles
from swiftlet.sync.watch import Report, Warn, told, watch
from swiftlet.types import Document

_SECONDS_AFTER_FAILURE = 30
_FACTORY = "SQ8"  # which needs no training
_WEIGHT = 0.5
"""Of the dense score in the first index: docs/results/folder.md measures it."""


def build_first(
    index: Path,
    folder: Path,
    progress: Progress,
    encoder: EncoderSpec | None = None,
    ahead: ReadAhead | None = None,
) -> Round:
    """Build the first index of a folder, in seconds; or the only one, by the `encoder` named.

    :param ahead: Reads the files beside this process.
    :raises InvalidArgumentError: When the folder has no file that can be read.
    :raises RetrievalError: As `build`.
    """
    done, settings, finish = Round(), BuildSettings(), None
    if encoder is None:
        encoder, settings = LOOKUP_QUERY_ENCODER, BuildSettings(factory=_FACTORY)
        finish = _with_weight
    reader = FolderReader(Folder(folder), SeenFiles(index, folder))
    documents: Iterable[Document] = reader.documents(done, ahead)
    if encoder == AUTO:
        encoder, documents = fitting(documents)
    built = build_index(
        documents,
        encoder_place(encoder),
        index,
        settings,
        overwrite=True,
        progress=progress,
        finish=finish,
        beside=None if ahead is None else ahead.begin,
    )
    if ahead is not None:
        ahead.close()
    done.num_encoded = built.details["num_passages"]
    return done


def _with_weight(artefact: Path, _: Path) -> None:
    change_details(artefact, {"weight": _WEIGHT})


def is_first(index: Path) -> bool:
    """Whether an index has vectors of the look-up encoder, and is to be replaced.

    :raises ArtefactError: When it is not there.
    """
    found = read_manifest(index, "index").details["encoder_fingerprint"]
    return bool(found == read_manifest(LOOKUP_QUERY_ENCODER).fingerprint)


def follow(
    index: Path,
    folder: Path,
    progress: Progress,
    report: Report,
    warn: Warn,
    *,
    encoder: Place | None = None,
    threads: int,
    stop: Event,
) -> None:
    """Follow a folder in an index until `stop` is set, and refine the first index before.

    :param progress: Shows how far the document encoder is.
    :param report: Called after each round of sync.
    :param warn: Called with a sentence when something is held up.
    :param encoder: The document encoder; None takes the one that the index remembers.
    """
    final = index.with_name(f"{index.name}.final")
    if is_first(index):
        refined = Event()
        refining = Thread(
            target=_refine, args=(final, folder, progress, warn, threads, refined), daemon=True
        )
        _watch(index, folder, report, warn, refined, beside=refining)
        with locked_working_directory(index) as working:
            publish(final, index)
            discard(working)
    disk.remove_tree(final, ignore_errors=True)  # the first index by now, or one left by a kill
    _watch(index, folder, report, warn, stop, encoder=encoder)


def _refine(
    final: Path, folder: Path, progress: Progress, warn: Warn, threads: int, refined: Event
) -> None:
    """Build the final index and bring it in step, again and again until that succeeds."""
    problem = ""
    while not refined.wait(_SECONDS_AFTER_FAILURE if problem else 0):
        try:
            with closing(SeenFiles(final, folder)) as seen:
                reader = FolderReader(Folder(folder), seen)
                build(
                    reader.documents(Round()),
                    final,
                    overwrite=True,
                    progress=progress,
                    threads=threads,
                )
                with IndexWriter(final, None, threads=threads) as writer:
                    FolderSync(reader, writer).round()
        except Exception as error:  # noqa: BLE001 - as of a file that nobody foresaw
            if (said := told(error, _SECONDS_AFTER_FAILURE)) != problem:
                warn(f"the vectors cannot be refined yet: {said}")
            problem = said
        else:
            refined.set()


def _watch(
    index: Path,
    folder: Path,
    report: Report,
    warn: Warn,
    stop: Event,
    encoder: Place | None = None,
    beside: Thread | None = None,
) -> None:
    """Follow a folder; `beside` is started by the one process that has the index for itself."""
    with closing(SeenFiles(index, folder)) as seen, IndexWriter(index, encoder) as writer:
        following = FolderSync(FolderReader(Folder(folder), seen), writer)
        if beside is not None:
            beside.start()
        watch(following, report, warn, stop)
