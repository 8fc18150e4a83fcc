import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from swiftlet.errors import ArtefactError, InvalidArgumentError, StorageError
from swiftlet.publication import (
    clear,
    discard,
    locked_working_directory,
    publish,
    published,
    working_directory,
    writer_lock,
)


def write(target: Path, content: str, *, overwrite: bool = False) -> None:
    with published(target, overwrite=overwrite) as artefact:
        (artefact / "content").write_text(content)
        (artefact / "manifest.json").write_text(content)


def test_an_artefact_appears_whole_and_leaves_no_temporary_files(tmp_path):
    target = tmp_path / "new" / "folders" / "artefact"
    with published(target, overwrite=False) as artefact:
        (artefact / "content").write_text("one")
        assert not target.exists()
    assert (target / "content").read_text() == "one"
    assert [*target.parent.iterdir()] == [target]


def test_an_existing_artefact_is_only_replaced_with_overwrite(tmp_path):
    target = tmp_path / "artefact"
    write(target, "one")
    with pytest.raises(InvalidArgumentError, match=r"artefact exists; .* or pass --overwrite \("):
        write(target, "two")
    assert (target / "content").read_text() == "one"
    (target / "more").write_text("of the first")
    write(target, "two", overwrite=True)
    assert sorted(path.name for path in target.iterdir()) == ["content", "manifest.json"]
    assert (target / "content").read_text() == "two"
    assert [*tmp_path.iterdir()] == [target]


def test_an_empty_folder_is_as_good_as_none(tmp_path):
    target = tmp_path / "artefact"
    target.mkdir()
    write(target, "one")
    assert (target / "content").read_text() == "one"


def test_an_artefact_with_a_manifest_that_is_nested_too_deeply_is_overwritten(tmp_path):
    target = tmp_path / "artefact"
    write(target, "one")
    (target / "manifest.json").write_text("[" * 100_000)
    write(target, "two", overwrite=True)
    assert (target / "content").read_text() == "two"


def test_a_folder_that_is_no_artefact_is_never_overwritten(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.txt").write_text("years of work")
    with pytest.raises(InvalidArgumentError, match=r"home is not overwritten: .* is no artefact$"):
        write(home, "one", overwrite=True)
    with pytest.raises(InvalidArgumentError, match=r"thesis\.txt exists and is not a directory$"):
        write(home / "thesis.txt", "one", overwrite=True)
    assert [path.name for path in tmp_path.rglob("*")] == ["home", "thesis.txt"]


@pytest.mark.parametrize("earlier", [True, False])
@pytest.mark.parametrize("failure", [ValueError("a fault"), KeyboardInterrupt()])
def test_a_failure_leaves_the_earlier_artefact_and_no_temporary_files(tmp_path, earlier, failure):
    target = tmp_path / "artefact"
    if earlier:
        write(target, "one")

    def write_half() -> None:
        with published(target, overwrite=True) as artefact:
            (artefact / "content").write_text("half of t")
            raise failure

    with pytest.raises(type(failure)):
        write_half()
    assert [*tmp_path.iterdir()] == [target] * earlier
    assert not earlier or (target / "content").read_text() == "one"


def test_files_of_a_killed_writer_are_neither_published_nor_kept(tmp_path):
    target = tmp_path / "artefact"
    left = working_directory(target)
    (left / "artefact" / "deep").mkdir(parents=True)
    (left / "artefact" / "deep" / "stale").write_text("stale")
    (left / "lock").write_text("")
    (left / "link").symlink_to(tmp_path)
    write(target, "one")
    assert sorted(path.name for path in tmp_path.rglob("*")) == [
        "artefact",
        "content",
        "manifest.json",
    ]


@pytest.mark.parametrize("parent", ["file", "/proc"])
def test_a_place_that_cannot_be_written_is_named(tmp_path, parent):
    (tmp_path / "file").write_text("")
    target = tmp_path / parent / "artefact"
    with pytest.raises(StorageError, match=rf"^cannot write .*{parent}/\.artefact\.partial: \w+"):
        write(target, "one")


def test_a_second_writer_is_refused_while_the_first_is_at_work(tmp_path):
    target = tmp_path / "artefact"
    with published(target, overwrite=False) as artefact:
        with pytest.raises(
            ArtefactError, match=r"^another process is writing .*/artefact: wait until it ends"
        ):
            write(target, "two")
        write(tmp_path / "another", "three")
        (artefact / "content").write_text("one")
    assert (target / "content").read_text() == "one"


def test_each_of_many_writers_publishes_a_whole_artefact_or_is_refused(tmp_path):
    target = tmp_path / "artefact"

    def write_five(name: str) -> None:
        number = 0
        while number < 5:
            # Any other exception fails the test.
            with suppress(ArtefactError):
                write(target, f"{name} {number}", overwrite=True)
                number += 1

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write_five, "abcdef"))
    assert (target / "content").read_text() == (target / "manifest.json").read_text()
    assert [*tmp_path.iterdir()] == [target]


def test_a_reader_sees_an_artefact_at_every_moment_while_it_is_overwritten(tmp_path):
    target = tmp_path / "artefact"
    write(target, "first")
    done = threading.Event()
    seen: Counter[bool] = Counter()

    def read() -> None:
        while not done.is_set():
            try:
                folder = os.open(target, os.O_DIRECTORY)
            except OSError:
                seen[False] += 1
            else:
                seen[True] += 1
                os.close(folder)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(200):
            exchange(target, str(number))
    finally:
        done.set()
        reader.join()
    assert (target / "content").read_text() == "199"
    assert seen[True] > 200
    assert not seen[False]


def exchange(target: Path, content: str) -> None:
    fresh = target.with_name("fresh")
    fresh.mkdir()
    (fresh / "content").write_text(content)
    publish(fresh, target)
    (fresh / "content").unlink()
    (fresh / "manifest.json").unlink(missing_ok=True)
    fresh.rmdir()


def test_where_directories_cannot_be_exchanged_they_are_renamed_one_after_the_other(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("ctypes.CDLL", lambda *arguments, **options: object())
    target = tmp_path / "artefact"
    for content in ("one", "two", "three"):
        write(target, content, overwrite=True)
        assert (target / "content").read_text() == content
        assert [*tmp_path.iterdir()] == [target]


def test_a_working_directory_stays_for_the_next_run_until_it_is_discarded(tmp_path):
    target = tmp_path / "artefact"
    with locked_working_directory(target) as directory:
        (directory / "progress").write_text("half")
        (directory / "folder").mkdir()
    with locked_working_directory(target) as directory:
        assert (directory / "progress").read_text() == "half"
        clear(directory)
        assert [path.name for path in directory.iterdir()] == ["lock"]
        discard(directory)
    assert not any(tmp_path.iterdir())


def test_a_lock_on_a_removed_working_directory_is_worth_nothing(tmp_path):
    target = tmp_path / "artefact"
    with locked_working_directory(target) as directory:
        discard(directory)
        with locked_working_directory(target) as again:
            assert again == directory
            with pytest.raises(ArtefactError), locked_working_directory(target):
                pass


def test_a_lock_ends_without_an_error_when_its_directory_was_removed(tmp_path):
    with writer_lock(tmp_path / "artefact") as directory:
        discard(directory)
    assert not any(tmp_path.iterdir())
