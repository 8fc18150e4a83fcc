"""Snapshots of an index that is written to."""

import os
import shutil
import sqlite3
import subprocess
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import swiftlet
from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.index.changes.log import CHANGES_FILE
from swiftlet.manifest import describe_files, read_manifest, write_manifest


def restored(archive: Path, place: Path) -> Path:
    place.mkdir(exist_ok=True)
    subprocess.run(["tar", "-xf", archive, "-C", place], check=True)
    return place / "index"


def test_a_snapshot_has_the_changes_of_one_moment_while_writes_and_merges_go_on(index, tmp_path):
    """Each batch puts two documents: a snapshot has both or none."""
    stop = threading.Event()

    def write() -> None:
        with swiftlet.write(index) as writer:
            number = 0
            while not stop.is_set():
                writer.put([{"id": f"{number} {part}", "text": "tea"} for part in "ab"])
                number += 1
                if number % 10 == 0:
                    writer.compact()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(5):
            swiftlet.snapshot(index, tmp_path / f"{number}.tar")
    finally:
        stop.set()
        thread.join()
    counts = []
    for number in range(5):
        place = restored(tmp_path / f"{number}.tar", tmp_path / str(number))
        with swiftlet.open(place, encoder=LOOKUP_QUERY_ENCODER) as searcher:
            counts.append(searcher.num_documents)
        with swiftlet.write(place) as writer:
            assert writer.delete(["bees-1"]).num_documents == 1
    assert counts == sorted(counts)
    assert all(count % 2 == 0 for count in counts)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [""] * 6 + [".tar"] * 5


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_snapshot_into_a_pipe_or_a_device_is_refused_without_reading_it(
    index, tmp_path, overwrite
):
    os.mkfifo(pipe := tmp_path / "pipe")
    for out in (pipe, Path("/dev/zero")):
        with pytest.raises(swiftlet.InvalidArgumentError, match=f"^{out} is no regular file"):
            swiftlet.snapshot(index, out, overwrite=overwrite)
    assert {*tmp_path.iterdir()} == {index, pipe}


def test_a_snapshot_replaces_nothing_unless_told_to(index, tmp_path):
    out = tmp_path / "index.tar"
    swiftlet.snapshot(index, out)
    with swiftlet.open(restored(out, tmp_path / "first")) as searcher:
        assert searcher.change == 0
    with pytest.raises(swiftlet.InvalidArgumentError, match="exists; choose another place"):
        swiftlet.snapshot(index, out)
    with swiftlet.write(index) as writer:
        writer.put([{"id": "new", "text": "new"}])
        swiftlet.snapshot(index, out, overwrite=True)
    with swiftlet.open(restored(out, tmp_path / "second")) as searcher:
        assert searcher.document("new").text == "new"
    with pytest.raises(swiftlet.InvalidArgumentError, match="second is a directory; name a file"):
        swiftlet.snapshot(index, tmp_path / "second", overwrite=True)
    (tmp_path / "notes.txt").write_text("notes")
    with pytest.raises(swiftlet.InvalidArgumentError, match="not overwritten: it is no tar"):
        swiftlet.snapshot(index, tmp_path / "notes.txt", overwrite=True)


@pytest.mark.parametrize("puts", [0, 1])
def test_a_snapshot_is_restored_over_an_index_of_which_the_writer_was_killed(index, tmp_path, puts):
    with swiftlet.write(index) as writer:
        for number in range(puts):
            writer.put([{"id": f"before {number}", "text": "tea"}])
        swiftlet.snapshot(index, tmp_path / "index.tar")
        for number in range(9):
            writer.put([{"id": f"after {number}", "text": "tea"}])
        shutil.copytree(index, tmp_path / "killed" / "index")
    assert (tmp_path / "killed" / "index" / f"{CHANGES_FILE}-wal").stat().st_size
    place = restored(tmp_path / "index.tar", tmp_path / "killed")
    with swiftlet.open(place) as searcher:
        assert searcher.change == puts
        with pytest.raises(swiftlet.UnknownDocumentError):
            searcher.document("after 0")


def test_a_snapshot_unpacked_over_an_open_index_is_followed_and_loses_no_later_write(
    index, tmp_path
):
    """The files of the changes are replaced, the directory is not."""
    with swiftlet.write(index) as writer, swiftlet.open(index) as searcher:
        writer.put([{"id": "before", "text": "tea"}])
        swiftlet.snapshot(index, tmp_path / "index.tar")
        writer.put([{"id": "undone", "text": "tea"}])
        searcher.refresh()
        assert searcher.document("undone")
        restored(tmp_path / "index.tar", tmp_path)
        assert searcher.refresh()
        assert (searcher.change, searcher.document("before").text) == (1, "tea")
        with pytest.raises(swiftlet.UnknownDocumentError):
            searcher.document("undone")
        assert writer.put([{"id": "after", "text": "tea"}]).change == 2
        searcher.refresh()
        assert searcher.document("after")
        writer.put([{"id": "last", "text": "tea"}])
        assert writer.compact()
    with swiftlet.open(index) as searcher:
        assert [searcher.document(name).text for name in ("before", "after", "last")] == 3 * ["tea"]
        with pytest.raises(swiftlet.UnknownDocumentError):
            searcher.document("undone")


def test_a_damaged_index_gives_no_snapshot(index, tmp_path):
    (index / "index.faiss").write_bytes(b"")
    with pytest.raises(swiftlet.CorruptArtefactError, match=r"index\.faiss"):
        swiftlet.snapshot(index, tmp_path / "index.tar")
    assert [*tmp_path.iterdir()] == [index]


def test_altered_changes_and_those_of_another_index_give_no_snapshot(index, tmp_path):
    with swiftlet.write(index) as writer:
        writer.put([{"id": "new", "text": "new"}])
    path = index / CHANGES_FILE
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE changes SET title = 'other'")
        connection.commit()
    with pytest.raises(swiftlet.CorruptArtefactError, match="change 1 does not match its checksum"):
        swiftlet.snapshot(index, tmp_path / "index.tar")
    other = tmp_path / "other"
    swiftlet.build([{"id": "new", "text": "new"}], other)
    shutil.copy(path, other)
    with pytest.raises(swiftlet.CorruptArtefactError, match="belongs to another index"):
        swiftlet.snapshot(other, tmp_path / "index.tar")
    assert {*tmp_path.iterdir()} == {index, other}


def test_a_snapshot_copies_no_file_from_outside_the_index(index, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (index / "more").symlink_to(secret)
    manifest = read_manifest(index)
    files = {**manifest.files, **describe_files(index, ["more"])}
    write_manifest(index, replace(manifest, files=files))
    with pytest.raises(swiftlet.CorruptArtefactError, match=r"more is a link to .*secret, which"):
        swiftlet.snapshot(index, tmp_path / "index.tar")
    assert {*tmp_path.iterdir()} == {index, secret}


def test_a_snapshot_inside_its_index_is_refused(index, tmp_path):
    (tmp_path / "link").symlink_to(index)
    before = {*index.iterdir()}
    with pytest.raises(swiftlet.InvalidArgumentError, match="is inside the index"):
        swiftlet.snapshot(index, tmp_path / "link" / "index.tar")
    assert {*index.iterdir()} == before
