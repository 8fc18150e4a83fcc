"""Writers on full disks, without descriptors, and over damaged files."""

import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.errors import CorruptIndexError, RetrievalError, StorageError, UnfinishedWriteError
from swiftlet.index.building.build import build_index
from swiftlet.index.changes.last import LAST_FILE, LastChange
from swiftlet.index.changes.log import CHANGES_FILE
from swiftlet.index.directory import documents
from swiftlet.index.query_encoder import put_query_encoder
from swiftlet.index.snapshot import snapshot
from swiftlet.index.updates.directory_writer import IndexWriter
from swiftlet.index.updates.merge import merge_changes
from swiftlet.manifest import read_manifest
from swiftlet.types import Document
from tests.descriptors import only_more_descriptors

pytest_plugins = ["tests.small_disk"]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("built") / "index"
    build_index([Document(f"{n}", f"text {n}") for n in range(5)], LOOKUP_QUERY_ENCODER, out)
    return out


@pytest.fixture
def writer(index) -> Iterator[IndexWriter]:
    with IndexWriter(index, LOOKUP_QUERY_ENCODER, threads=1) as opened:
        opened.put([Document("encoder", "is loaded")])
        yield opened


def ids(index: Path) -> set[str]:
    return {document.document_id for document in documents(index)}


def test_a_disk_that_is_full_at_the_first_change_leaves_an_index_that_can_be_changed(
    built, small_disk
):
    subprocess.run(["mount", "-o", "remount,size=3m", str(small_disk)], check=True)
    outcomes = set()
    for pages in range(0, 26, 2):
        index = Path(shutil.copytree(built, small_disk / f"{pages}"))
        with IndexWriter(index, LOOKUP_QUERY_ENCODER, threads=1) as writer:
            change = writer._preparation.changes([Document("new", "text")], writer.manifest())
            found = os.statvfs(small_disk)
            ballast = small_disk / "ballast"
            with ballast.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, (found.f_bavail - pages) * found.f_frsize)
            try:
                outcomes.add(writer.append(change, writer.manifest()).change)
            except StorageError as error:
                outcomes.add(type(error))
            ballast.unlink()
            written = {"new"} if writer.change else set()
            assert ids(index) == {"0", "1", "2", "3", "4"} | written
            writer.put([Document("after", "text")])
        assert ids(index) == {"0", "1", "2", "3", "4", "after"} | written
        shutil.rmtree(index)
    assert outcomes == {StorageError, 1}


@pytest.mark.parametrize("count", range(6))
def test_a_writer_without_descriptors_after_a_merge_goes_on_when_there_are_some(
    index, writer, count
):
    limit = only_more_descriptors(count)

    def merge(base: Path, artefact: Path, last: int, _: Path | None) -> None:
        merge_changes(base, artefact, last, None, threads=1)
        limit.__enter__()

    try:
        writer.compact(merge=merge)
    except RetrievalError as error:
        assert re.search("Too many open files|unable to open", str(error))  # noqa: PT017 - or none
    finally:
        limit.__exit__(None, None, None)
    for number, name in enumerate("ab", start=2):
        assert writer.put([Document(name, "text")]).change == number
    writer.close()
    assert ids(index) >= {"a", "b", "0"}


@pytest.mark.parametrize("count", range(4))
def test_a_write_that_fails_for_want_of_descriptors_can_be_sent_again(index, writer, count):
    (change,) = writer._preparation.changes([Document("new", "text")], writer.manifest())
    writer.compact()
    manifest, outcome = writer.manifest(), None
    with only_more_descriptors(count):
        try:
            writer.append([change], manifest)
        except RetrievalError as error:
            outcome = type(error)
    assert outcome is StorageError
    assert "new" not in ids(index)
    assert writer.append([change], manifest).change == writer.change == 2
    assert "new" in ids(index)


def test_a_write_of_which_the_end_fails_may_be_there_and_can_be_sent_again(
    index, writer, storage_ends_at
):
    changes = writer._preparation.changes([Document("new", "text")], writer.manifest())
    log = index / f"{CHANGES_FILE}-wal"
    with (
        storage_ends_at(log.stat().st_size + 2_000),
        pytest.raises(UnfinishedWriteError, match="it is not known whether the changes are"),
    ):
        writer.append(changes, writer.manifest())
    assert ids(index) - {"new"} == {"0", "1", "2", "3", "4", "encoder"}
    assert writer.append(changes, writer.manifest()).change == writer.change == 2
    assert "new" in ids(index)


def test_a_write_is_said_to_be_there_if_only_its_note_fails(index, writer, monkeypatch):
    changes = writer._preparation.changes([Document("new", "text")], writer.manifest())
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda *line: write(line[0], line[1][:20], line[2]))
    with pytest.raises(UnfinishedWriteError, match="the changes are written, but"):
        writer.append(changes, writer.manifest())
    monkeypatch.undo()
    assert "new" in ids(index)
    assert writer.put([Document("newer", "text")]).change == writer.change == 3
    assert b" 00000000000000000003 " in (index / LAST_FILE).read_bytes()
    assert {"new", "newer"} <= ids(index)


def test_any_bit_that_flips_in_the_open_log_is_refused_by_name(index, writer, tmp_path):
    writer.put([Document("a", "text"), Document("b", "text")])
    writer.delete(["a", "1"])
    writer.put([Document("2", "another text")])
    choice, log = random.Random(3), f"{CHANGES_FILE}-wal"
    whole = (index / log).read_bytes()
    for place in choice.sample(range(len(whole)), 30):
        copy = Path(shutil.copytree(index, tmp_path / f"{place}"))
        (copy / f"{CHANGES_FILE}-shm").unlink()
        flipped = bytearray(whole)
        flipped[place] ^= 1 << choice.randrange(8)
        (copy / log).write_bytes(flipped)
        for read in (ids, partial(IndexWriter, encoder=None)):
            with pytest.raises(CorruptIndexError, match=CHANGES_FILE):
                read(copy)


@pytest.mark.parametrize("damage", ["altered", "another's", "without the changes"])
def test_the_note_of_the_last_change_is_verified(index, writer, damage):
    before = (index / LAST_FILE).read_bytes()
    writer.put([Document("a", "text")])
    writer.close()
    note = index / LAST_FILE
    if damage == "altered":
        note.write_bytes(note.read_bytes().replace(b" ", b"  "))
        refused = f"{LAST_FILE} has been altered; swiftlet repair"
    elif damage == "another's":
        last = LastChange(2, bytes(32)).line(read_manifest(index).content)
        note.write_bytes(last)
        refused = "change 2 is not the one that was written"
    else:
        (index / CHANGES_FILE).unlink()
        refused = f"{CHANGES_FILE} is damaged: it lacks change 2, which was written"
    for read in (ids, partial(IndexWriter, encoder=None)):
        with pytest.raises(CorruptIndexError, match=refused):
            read(index)
    note.write_bytes(before)  # an earlier note is right, as after a power cut
    if damage != "without the changes":
        assert "a" in ids(index)


@pytest.mark.parametrize("length", [0, 1, 100, 215])
def test_half_a_note_leaves_the_one_before(index, writer, length):
    note = index / LAST_FILE
    before = note.read_bytes()
    writer.put([Document("a", "text")])
    after = note.read_bytes()
    changed = next(place for place, (a, b) in enumerate(zip(before, after, strict=True)) if a != b)
    start = changed - changed % (len(after) // 2)
    half = bytearray(before)
    half[start : start + length] = after[start : start + length]
    note.write_bytes(half)
    assert "a" in ids(index)


@pytest.mark.parametrize("count", [0, 1, 3, 6])
def test_a_merge_and_a_snapshot_without_descriptors_are_refused_in_a_sentence(
    index, writer, tmp_path, count
):
    copy = partial(snapshot, index, tmp_path / "index.tar", overwrite=True)
    for run in (writer.compact, copy):
        with only_more_descriptors(count):
            try:
                run()
            except RetrievalError as error:
                outcome = f"{error}"
            else:
                outcome = ""
        assert re.search("Too many open files|unable to open|^$", outcome), outcome
        run()
    assert ids(index) == {"0", "1", "2", "3", "4", "encoder"}


def test_all_files_and_folders_are_on_the_disk_before_anything_is_removed(
    index, tmp_path, monkeypatch
):
    done: list[tuple[str, int]] = []
    sync, remove = os.fsync, shutil.rmtree

    def noted_sync(descriptor: int) -> None:
        sync(descriptor)
        done.append(("synced", os.fstat(descriptor).st_ino))

    def noted_remove(path: Path, **options: bool) -> None:
        done.extend(("removed", each.stat().st_ino) for each in [path][: path.exists()])
        remove(path, **options)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(shutil, "rmtree", noted_remove)
    earlier = index.stat().st_ino
    put_query_encoder(LOOKUP_QUERY_ENCODER, index, {})
    with IndexWriter(index, LOOKUP_QUERY_ENCODER, threads=1) as writer:
        writer.put([Document("new", "text")])
        writer.compact()
    synced = {inode for what, inode in done[: done.index(("removed", earlier))] if what == "synced"}
    folders = {each.name for each in index.rglob("*") if each.is_dir()}
    assert folders >= {"columns", "lexical", "query_encoder"}
    of_base = [each for each in index.rglob("*") if not each.name.startswith(CHANGES_FILE)]
    assert {each.stat().st_ino for each in (index, index.parent, *of_base)} <= synced
    done.clear()
    (tmp_path / "copies").mkdir()
    snapshot(index, tmp_path / "copies" / "index.tar")
    assert ("synced", (tmp_path / "copies").stat().st_ino) in done
