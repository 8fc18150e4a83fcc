"""Changes that are damaged are saved as far as they can be read."""

import errno
import os
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import swiftlet
from swiftlet import disk
from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.errors import UnfinishedWriteError
from swiftlet.index.building.build import build_index
from swiftlet.index.changes.last import LAST_FILE
from swiftlet.index.changes.log import CHANGES_FILE
from swiftlet.index.directory import documents
from swiftlet.index.repair import repair
from swiftlet.types import Document
from tests.command_line import refusal
from tests.command_line import swiftlet as command

IDS = [f"document {number:03}" for number in range(40)]
LOG = f"{CHANGES_FILE}-wal"


@pytest.fixture(scope="module")
def changed(tmp_path_factory) -> Path:
    """An index with a change of its base and 40 puts, as a writer leaves it that was killed."""
    folder = tmp_path_factory.mktemp("changed")
    base = [Document(each, "of the base") for each in ("one", "two")]
    build_index(base, LOOKUP_QUERY_ENCODER, folder / "written")
    with swiftlet.write(folder / "written", encoder=LOOKUP_QUERY_ENCODER) as writer:
        writer.delete(["one"])
        for each in IDS:
            writer.put([Document(each, f"the text of {each}")])
        return Path(shutil.copytree(folder / "written", folder / "index"))


@pytest.fixture
def index(changed, tmp_path) -> Path:
    copy = Path(shutil.copytree(changed, tmp_path / "index"))
    (copy / f"{CHANGES_FILE}-shm").unlink()
    return copy


def texts(index: Path) -> dict[str, str]:
    return {document.document_id: document.text for document in documents(index)}


def whole() -> dict[str, str]:
    return {"two": "of the base", **{each: f"the text of {each}" for each in IDS}}


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)


def test_a_flipped_bit_in_the_log_costs_the_changes_of_its_page_at_most(index, tmp_path):
    choice, size = random.Random(1), (index / LOG).stat().st_size
    lost = []
    for place in [20, 40, *choice.sample(range(size), 12)]:
        copy = Path(shutil.copytree(index, tmp_path / f"{place}"))
        flip(copy / LOG, place)
        with pytest.raises(swiftlet.ArtefactError, match=f"swiftlet repair {copy} saves"):
            texts(copy)
        found = repair(copy)
        lost.append(len(found.lost))
        assert found.num_changes + len(found.lost) == 41
        assert not set(texts(copy).items()) - set(whole().items()) - {("one", "of the base")}
        assert len(texts(copy)) >= 40 - len(found.lost)
        shutil.rmtree(copy)
    assert max(lost) <= 4
    assert lost.count(0) >= 6


def test_a_change_that_is_lost_is_named_and_the_index_can_be_changed_and_searched(index):
    with swiftlet.write(index) as writer:
        writer.put([Document("last", "text")])
    log = index / LOG
    flip(log, log.read_bytes().rindex(b"the text of document 007"))
    result = command("repair", index)
    assert result.exit_code == 0, result.output
    assert "change 9 is lost, perhaps of the document 'document 007'" in result.stderr
    assert f"the index as it was is {index}.damaged" in result.stderr.replace("\n", "")
    assert "41 changes saved, 1 lost" in result.stdout
    expected = {**whole(), "last": "text"}
    del expected["document 007"]
    assert texts(index) == expected
    assert "no change is damaged, 41 changes in all" in command("repair", index).stdout
    with swiftlet.write(index) as writer:
        assert writer.put([Document("document 007", "once more")]).change == 42
        assert "another process is writing" in refusal(command("repair", index))
    with swiftlet.open(index) as searcher:
        assert searcher.search("once more", 1)[0].document_id == "document 007"
    (index / LAST_FILE).write_bytes(b"altered")
    assert "is there, perhaps from an earlier repair: move it away" in refusal(
        command("repair", index)
    )


def test_a_repair_that_was_killed_before_the_exchange_is_done_by_the_next_one(index):
    flip(index / LOG, (index / LOG).read_bytes().rindex(b"the text of document 007"))
    kept = Path(shutil.copytree(index, index.with_name("index.damaged")))
    repair(kept)
    shutil.rmtree(index.with_name("index.damaged.damaged"))
    saved = texts(kept)  # which makes files beside the changes
    assert repair(index).kept == kept
    assert texts(index) == saved
    with pytest.raises(swiftlet.ArtefactError, match="swiftlet repair"):
        texts(kept)
    # One that somebody has changed is no such thing.
    (index / LAST_FILE).write_bytes(b"altered")
    shutil.rmtree(kept)
    shutil.copytree(index, kept)
    with pytest.raises(swiftlet.InvalidArgumentError, match="move it away"):
        repair(index)
    assert not [*index.parent.glob(".*")]


@pytest.mark.parametrize("left", ["nothing", "no database", "the empty file of a full disk"])
def test_changes_of_which_nothing_can_be_read_are_all_named(index, left):
    (index / LOG).unlink()
    if left == "nothing":
        (index / CHANGES_FILE).unlink()
    elif left == "no database":
        (index / CHANGES_FILE).write_bytes(b"no database at all" * 1000)
    else:
        (index / CHANGES_FILE).write_bytes((index / CHANGES_FILE).read_bytes()[:20].ljust(4096))
    found = repair(index)
    assert (found.num_changes, [*found.lost]) == (0, [*range(1, 42)])
    assert texts(index) == {"one": "of the base", "two": "of the base"}
    assert (index.parent / "index.damaged" / LAST_FILE).exists()


def test_a_searcher_that_is_open_follows_a_repair(index):
    with swiftlet.write(index) as writer:
        writer.delete([IDS[0]])
    with swiftlet.open(index) as searcher:
        (index / LAST_FILE).write_bytes(b"altered")
        assert repair(index).lost == {}
        assert searcher.refresh()
        assert searcher.num_documents == 40
        with swiftlet.write(index) as writer:
            writer.put([Document("new", "text")])
        assert searcher.refresh()
        assert searcher.num_documents == 41


def test_a_repair_that_fails_leaves_the_index_as_it_was(index, monkeypatch):
    (index / LAST_FILE).write_bytes(b"altered")
    before = {path.name: path.read_bytes() for path in index.iterdir() if path.is_file()}

    def fail(*paths):
        raise OSError(errno.EIO, "an error of the disk")

    kept = index.with_name("index.damaged")
    kept.symlink_to("nowhere")
    with pytest.raises(swiftlet.InvalidArgumentError, match="perhaps from an earlier repair"):
        repair(index)
    kept.unlink()
    for name in ("rename", "exchange"):
        with monkeypatch.context() as patch:
            patch.setattr(disk, name, fail)
            with pytest.raises(swiftlet.StorageError, match="Input/output error"):
                repair(index)
        left = {path.name: path.read_bytes() for path in index.iterdir() if path.is_file()}
        assert {**left, f"{CHANGES_FILE}-shm": b""} == {**before, f"{CHANGES_FILE}-shm": b""}
        assert not kept.exists()
    sync = disk.sync
    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync", lambda place: fail() if place == index.parent else sync(place))
        with pytest.raises(UnfinishedWriteError):
            repair(index)
    assert (kept / LAST_FILE).read_bytes() == b"altered"
    assert texts(index) == whole()


def test_a_number_that_no_change_can_have_does_not_hold_up_a_repair(index):
    with closing(sqlite3.connect(index / CHANGES_FILE)) as connection:
        connection.execute("UPDATE changes SET change = 1 << 62 WHERE change = 15")
        connection.commit()
    assert [*repair(index).lost] == [15]


@pytest.mark.parametrize("name", [LAST_FILE, CHANGES_FILE])
def test_links_and_pipes_in_the_place_of_changes_are_refused(index, tmp_path, name):
    (tmp_path / "elsewhere").write_bytes((index / name).read_bytes())
    acts = [texts]
    if name == CHANGES_FILE:
        acts += [repair, lambda index: swiftlet.snapshot(index, tmp_path / "a.tar")]
    for make in (os.mkfifo, lambda path: path.symlink_to(tmp_path / "elsewhere")):
        (index / name).unlink()
        make(index / name)
        for act in acts:
            with pytest.raises(swiftlet.ArtefactError, match=f"{name} is no regular file"):
                act(index)


def test_a_repair_copies_no_file_from_outside_the_index(index, tmp_path):
    (index / LAST_FILE).write_bytes(b"altered")
    (index / "documents.sqlite").rename(tmp_path / "secret")
    (index / "documents.sqlite").symlink_to(tmp_path / "secret")
    with pytest.raises(swiftlet.CorruptArtefactError, match="is no part of the artefact"):
        repair(index)


def test_a_base_that_is_damaged_is_not_repaired(index):
    flip(index / "documents.sqlite", 100)
    with pytest.raises(swiftlet.CorruptArtefactError, match=r"documents\.sqlite has been altered"):
        repair(index)
    assert [*index.parent.iterdir()] == [index]
