"""Repairs an index of which the changes are damaged."""

import filecmp
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from swiftlet import disk
from swiftlet.arguments import StrPath, path_of
from swiftlet.errors import CorruptIndexError, InvalidArgumentError
from swiftlet.index.changes.log import Changes, ChangesWriter
from swiftlet.index.changes.salvage import salvaged
from swiftlet.manifest import file_of, load_manifest, write_manifest
from swiftlet.publication import flush, sync_name, writer_lock


@dataclass(frozen=True, slots=True)
class Repaired:
    """How many changes the index has now, and which are lost.

    `lost` has, by the number of a lost change, the id of its document as far as it can be read.
    `kept` is the index as it was; None if nothing was damaged.
    """

    num_changes: int
    lost: dict[int, str]
    kept: Path | None


def repair(index: StrPath) -> Repaired:
    """Save all changes of an index that can be read, if any is damaged.

    They get the numbers from the first on. The index as it was stays beside, as NAME.damaged.
    Searchers follow, as after a merge.

    :raises ArtefactError: When the base is damaged, or another process is writing the index.
    :raises InvalidArgumentError: When there is an index from an earlier repair.
    :raises StorageError: When the file system refuses; the index is as it was.
    :raises UnfinishedWriteError: When both are in their places, but a loss of power may undo it.
    """
    place = path_of("index", index).resolve()
    manifest = load_manifest(place, "index")
    kept = place.with_name(f"{place.name}.damaged")
    with writer_lock(place) as working, disk.storage_errors(place):
        artefact, scratch = working / "artefact", working / "salvage"
        for made in (artefact, scratch):  # by a repair that was killed
            disk.remove_tree(made, ignore_errors=True)
        try:
            with closing(Changes(place, manifest)) as changes:
                return Repaired(changes.count(), {}, None)
        except CorruptIndexError:
            pass
        try:
            for made in (artefact, scratch):
                disk.make_directory(made)
            found, lost = salvaged(place, manifest, scratch)
            for name in manifest.files:
                disk.make_directory((artefact / name).parent, parents=True, exist_ok=True)
                disk.copy(file_of(place, name), artefact / name)
            write_manifest(artefact, manifest)
            if found:
                first = changes.first + 1
                again = [replace(each, number=n) for n, each in enumerate(found, start=first)]
                with closing(ChangesWriter(artefact, manifest.content)) as file:
                    file.append(again)
            if kept.exists() or kept.is_symlink():
                # A repair that was killed before its exchange leaves there what is made now.
                if not _are_alike(artefact, kept):
                    raise InvalidArgumentError(
                        f"{kept} is there, perhaps from an earlier repair: move it away"
                    )
                disk.rename(kept, scratch / "earlier")
            flush(artefact)
            # So one exchange does both, and no moment has only one of the two.
            disk.rename(artefact, kept)
            try:
                disk.exchange(kept, place)
            except BaseException:
                disk.rename(kept, artefact)
                raise
            sync_name(place)
        finally:
            for made in (artefact, scratch):
                disk.remove_tree(made, ignore_errors=True)
    return Repaired(len(found), lost, kept)


def _are_alike(one: Path, other: Path) -> bool:
    """Whether two directories have the same files, but for what readers make beside the changes."""
    if other.is_symlink() or not other.is_dir():
        return False
    files, others = (
        {
            each.relative_to(folder).as_posix()
            for each in folder.rglob("*")
            if each.is_file() and each.stat().st_size and not each.name.endswith("-shm")
        }
        for folder in (one, other)
    )
    return files == others and {*filecmp.cmpfiles(one, other, files, shallow=False)[0]} == files
