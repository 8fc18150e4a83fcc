"""A part of the walk over all crash points, and of the random histories: `make crash` does all."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.crashes import recorder
from tests.crashes.__main__ import walk, walks
from tests.crashes.filesystem import FileSystem
from tests.crashes.recorder import Entry, Op

needs_a_compiler = pytest.mark.skipif(
    shutil.which("cc") is None and "CI" not in os.environ, reason="the recorder needs a C compiler"
)


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("crashes")
    recorder.compile_into(folder)
    return folder


@needs_a_compiler
@pytest.mark.check
@pytest.mark.timeout(3600)
def test_what_was_acknowledged_survives_kills_losses_of_power_and_faults(work):
    parts = walks(every=60, losses_every=60, histories=0, models_every=6)
    parts = [each for each in parts if each.get("command") != "train"]  # that takes minutes
    found = walk(parts, work, processes=1)
    assert found["wrong"] == []
    assert {"add", "export", "export-vectors", "repair"} <= found["operations"].keys()
    walked = {*recorder.FAULTS, "killed", "killed in the middle of a write", "power loss"}
    assert found["points"].keys() == walked


@needs_a_compiler
@pytest.mark.check
@pytest.mark.timeout(3600)
def test_random_histories_find_what_a_model_has(work):
    found = json.loads(recorder.run("tests.crashes.machine", [work, 1, 15], work))
    assert found["failure"] == ""
    assert found["steps"]


def entry(
    op: Op, path: Path, *, inode: int = 0, data: bytes = b"", other: Path | str = ""
) -> Entry:
    return Entry(op, f"{path}", f"{other}", inode, 0, data)


@pytest.fixture
def disk(tmp_path) -> FileSystem:
    """A file "old" that is safe, and a new one that nothing has synced."""
    (tmp_path / "old").write_text("safe")
    files = FileSystem(tmp_path)
    files.apply(entry(Op.CREATE, tmp_path / "new", inode=1))
    files.apply(entry(Op.WRITE, tmp_path / "new", inode=1, data=b"content"))
    return files


def after_power_loss(disk: FileSystem) -> set[bytes | None]:
    """What the file "new" may have; None if it is not there."""
    left = [*disk.after_power_loss(seed=1, random_states=5)]
    assert all(each["old"] == b"safe" for each in left)
    return {each.get("new") for each in left}


def test_a_kill_leaves_what_was_written(disk):
    assert disk.after_kill() == {"old": b"safe", "new": b"content"}


def test_a_loss_of_power_may_leave_any_part_of_what_was_not_synced(disk):
    assert after_power_loss(disk) == {None, b"", bytes(7), b"content"}


def test_a_synced_file_may_have_no_name_yet(disk):
    disk.apply(entry(Op.SYNC, disk.root / "new", inode=1))
    assert after_power_loss(disk) == {None, b"content"}


def test_a_synced_name_may_have_no_content_yet(disk):
    disk.apply(entry(Op.SYNC, disk.root, inode=disk.root.stat().st_ino))
    assert after_power_loss(disk) == {b"", bytes(7), b"content"}


def test_what_is_synced_with_its_name_stays(disk):
    disk.apply(entry(Op.SYNC, disk.root / "new", inode=1))
    disk.apply(entry(Op.SYNC, disk.root, inode=disk.root.stat().st_ino))
    assert after_power_loss(disk) == {b"content"}


def test_a_rename_happens_as_a_whole(disk):
    disk.apply(entry(Op.SYNC, disk.root / "new", inode=1))
    disk.apply(entry(Op.SYNC, disk.root, inode=disk.root.stat().st_ino))
    disk.apply(entry(Op.RENAME, disk.root / "new", other=disk.root / "newer"))
    left = [*disk.after_power_loss(seed=1, random_states=5)]
    assert {tuple(sorted(each)) for each in left} == {("new", "old"), ("newer", "old")}
