"""Changes that are damaged are saved as far as they can be read."""

import random
import shutil
from pathlib import Path

import pytest

import swiftlet
from swiftlet.encoders import LOOKUP_QUERY_ENCODER
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
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
def index(changed: Path, tmp_path: Path) -> Path:
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
    assert "is there from an earlier repair: move it away" in refusal(command("repair", index))


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


def test_a_base_that_is_damaged_is_not_repaired(index):
    flip(index / "documents.sqlite", 100)
    with pytest.raises(swiftlet.CorruptArtefactError, match=r"documents\.sqlite has been altered"):
        repair(index)
    assert [*index.parent.iterdir()] == [index]
