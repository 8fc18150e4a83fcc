"""An index that follows a folder."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from swiftlet.cli.indexes.sync import report
from swiftlet.cli.indexes.sync import sync as sync_command
from swiftlet.corpora.files import documents
from swiftlet.encoders import DEFAULT_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.errors import InvalidArgumentError, StorageError
from swiftlet.index.building.build import build
from swiftlet.index.updates.directory_writer import IndexWriter
from swiftlet.progress import Silence
from swiftlet.search.searcher import Searcher
from swiftlet.sync import ahead, rounds
from swiftlet.sync.folder import Folder, FolderGoneError
from swiftlet.sync.refine import build_first
from swiftlet.sync.rounds import FolderReader, FolderSync, OtherFolderError, Round
from swiftlet.sync.seen import SeenFiles
from swiftlet.sync.watch import _Watcher, watch
from swiftlet.types import Document
from tests.command_line import refusal, swiftlet
from tests.polling import wait_until

pytest_plugins = ["tests.small_disk"]

SENTENCES = "Bees gather nectar in the meadow. Lava flows down the slope of a volcano. " * 20


def note(number: int, more: str = "") -> str:
    return f"# Note {number}\n\n{SENTENCES}{number} {more}"


@pytest.fixture
def folder(tmp_path) -> Path:
    found = tmp_path / "folder"
    found.mkdir()
    for number in range(4):
        written(found / f"{number}.md", note(number))
    return found


def written(path: Path, text: str, *, seconds_ago: int = 100) -> None:
    """A file as it was written some time ago, so that sync does not wait for its writer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - seconds_ago,) * 2)


@pytest.fixture
def sync(folder, tmp_path) -> Iterator[Callable[..., Round]]:
    """A round of a new process: nothing is kept in memory between two calls."""
    index = tmp_path / "index"

    def run(names: list[str] | None = None) -> Round:
        seen = SeenFiles(index, folder)
        reader = FolderReader(Folder(folder), seen)
        try:
            if not index.exists():
                build(reader.documents(Round()), index, encoder=LOOKUP_QUERY_ENCODER)
            with IndexWriter(index, LOOKUP_QUERY_ENCODER) as writer:
                return FolderSync(reader, writer).round(names)
        finally:
            seen.close()

    run()
    return run


@contextmanager
def watched(folder: Path, tmp_path: Path) -> Iterator[tuple[IndexWriter, list[Round], list[str]]]:
    """The writer of an index that follows a folder, its rounds, and what is said meanwhile."""
    index, done, warnings, stop = tmp_path / "index", [], [], threading.Event()
    reader = FolderReader(Folder(folder), SeenFiles(index, folder))
    build(reader.documents(Round()), index, encoder=LOOKUP_QUERY_ENCODER)
    with IndexWriter(index, LOOKUP_QUERY_ENCODER) as writer:
        arguments = FolderSync(reader, writer), done.append, warnings.append, stop
        following = threading.Thread(target=watch, args=arguments)
        following.start()
        try:
            yield writer, done, warnings
        finally:
            stop.set()
            following.join()


def ids(tmp_path: Path) -> set[str]:
    with Searcher.open(tmp_path / "index", LOOKUP_QUERY_ENCODER) as searcher:
        return {hit.document_id for hit in searcher.search("bees", 1000).hits}


def test_new_changed_moved_and_deleted_files_are_followed(folder, sync, tmp_path):
    assert sync() == Round()
    written(folder / "new.md", note(9))
    written(folder / "0.md", note(0) + "\n\n## A new section\n\nThe moon.")
    (folder / "sub").mkdir()
    (folder / "1.md").rename(folder / "sub" / "moved.md")
    (folder / "2.md").unlink()
    done = sync()
    assert (done.num_put, done.num_deleted, done.problems) == (3, 2, [])
    assert ids(tmp_path) == {"0.md", "3.md", "new.md", "sub/moved.md"}
    assert sync() == Round()


def test_a_text_that_is_in_the_index_is_not_encoded_again(folder, sync, tmp_path):
    (folder / "sub").mkdir()
    (folder / "1.md").rename(folder / "sub" / "moved.md")
    written(folder / "copy.md", note(2))
    moved = sync()
    assert (moved.num_put, moved.num_encoded) == (2, 0)
    assert moved.num_reused > 2
    long = "\n\n".join(f"## Part {number}\n\n{SENTENCES}{number}" for number in range(6))
    written(folder / "long.md", f"# Long\n\n{long}")
    first = sync()
    written(folder / "long.md", f"# Long\n\n{long.replace('Part 3', 'Part three')}")
    edited = sync()
    assert 0 < edited.num_encoded < first.num_encoded / 3
    before = found(tmp_path)
    build(
        FolderReader(Folder(folder), SeenFiles(tmp_path / "index", folder)).documents(Round()),
        tmp_path / "fresh",
        encoder=LOOKUP_QUERY_ENCODER,
    )
    assert found(tmp_path, "fresh") == before


def found(tmp_path: Path, name: str = "index") -> dict[str, float]:
    with Searcher.open(tmp_path / name, LOOKUP_QUERY_ENCODER) as searcher:
        hits = searcher.search("a meadow with bees", 100, mode="dense").hits
        return {hit.document_id: round(hit.score, 5) for hit in hits}


def test_a_merge_and_a_kill_between_two_writes_lose_nothing(folder, sync, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(rounds, "BATCH_DOCUMENTS", 1)
        patched.setattr(SeenFiles, "note", killed_after(3, SeenFiles.note))
        for number in range(10, 15):
            written(folder / f"{number}.md", note(number))
        (folder / "0.md").unlink()
        with pytest.raises(KeyboardInterrupt):
            sync()
    with IndexWriter(tmp_path / "index", LOOKUP_QUERY_ENCODER) as writer:
        assert 4 < writer.num_documents < 9
        writer.compact()
    done = sync()
    assert 0 < done.num_put < 5
    assert ids(tmp_path) == {path.name for path in folder.iterdir()}
    (tmp_path / ".index.files").unlink()
    assert sync() == Round()


def killed_after(times: int, call: Callable[..., None]) -> Callable[..., None]:
    left = iter(range(times))

    def run(*arguments: object) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        call(*arguments)

    return run


def test_documents_that_no_file_gave_stay(folder, sync, tmp_path):
    with IndexWriter(tmp_path / "index", LOOKUP_QUERY_ENCODER) as writer:
        writer.put([{"id": "of a table", "text": "bees"}, {"id": "3.md", "text": "bees"}])
    (folder / "2.md").unlink()
    sync()
    assert ids(tmp_path) == {"0.md", "1.md", "3.md", "of a table"}
    assert found(tmp_path)["3.md"] == pytest.approx(found(tmp_path)["1.md"], abs=0.1)


def test_hidden_and_ignored_files_are_left_out_by_the_nearest_rule(folder):
    for name in (
        ".hidden/a.md", "build/a.md", "keep/build/a.md", "logs/a.txt", "logs/keep.txt",
        "sub/only here.md", "sub/deep/only here.md", "only here.md", "drafts/a.md",
        "sub/sketches/a.md",
    ):  # fmt: skip
        written(folder / name, "text")
    (folder / ".gitignore").write_text("/build/\nlogs/*\n!\n[z-a]\n# a comment\ndrafts/\n")
    (folder / "logs" / ".gitignore").write_text("!keep.txt\n")
    (folder / "sub" / ".gitignore").write_text("/only here.md\nsketches/\n")
    (folder / ".swiftletignore").write_text("[0-3].md\n!drafts/\n!sub/sketches/\n")
    expected = {
        "drafts/a.md", "keep/build/a.md", "logs/keep.txt", "only here.md", "sub/deep/only here.md",
        "sub/sketches/a.md",
    }  # fmt: skip
    looked = Folder(folder)
    assert {*looked.look().files} == expected
    names = ["drafts", "logs/keep.txt", "logs/a.txt", ".hidden/a.md", "build/a.md", "sub/deep"]
    names += ["sub/sketches"]
    names += ["only here.md", "keep/build", "gone", "gone/too"]
    assert {*looked.look(names).files} == expected


def test_a_file_with_several_names_is_read_once(folder, sync, tmp_path):
    for name in ("twin.md", "a/0.md", "b/0.md"):
        (folder / name).parent.mkdir(exist_ok=True)
        os.link(folder / "0.md", folder / name)
    (folder / "link.md").symlink_to("1.md")
    (folder / "circle").symlink_to(folder)
    (folder / "outside.md").symlink_to(__file__)
    (outside,) = sync(["twin.md", "link.md", "circle", "outside.md"]).problems
    assert "outside.md: it is a link to a place outside the folder" in outside
    assert ids(tmp_path) == {"0.md", "1.md", "2.md", "3.md"}
    (folder / "0.md").unlink()
    assert sync().num_encoded == 0
    assert ids(tmp_path) == {"1.md", "2.md", "3.md", "twin.md"}
    (folder / "twin.md").unlink()
    assert sync().num_encoded == 0
    assert ids(tmp_path) == {"1.md", "2.md", "3.md", "a/0.md"}


def test_front_matter_that_names_a_file_is_no_name_of_the_document(folder, sync, tmp_path):
    written(folder / "own.md", "---\ntitle: Own\nfile: 0.md\n---\nBees.")
    assert (sync().num_put, sync()) == (1, Round())
    (folder / "0.md").unlink()
    assert sync().num_deleted == 1
    assert ids(tmp_path) == {"1.md", "2.md", "3.md", "own.md"}


def test_a_bad_file_is_one_sentence_and_the_others_are_followed(folder, sync, tmp_path):
    written(folder / "empty.md", "")
    written(folder / "good.md", note(7))
    with (folder / "large.txt").open("wb") as large:
        large.truncate(1 << 30)
    (folder / os.fsdecode(b"no\xffutf8.md")).write_text("text")
    os.mkfifo(folder / "pipe.md")
    deep = folder.joinpath(*(f"{level:02}" for level in range(50)))
    written(deep / "deep.md", note(8))
    os.utime(folder / "2.md", (9.3e9, 9.3e9))  # of the year 2264
    os.utime(folder / "3.md", (2e9, 2e9))  # of a clock that went back since
    problems = sync().problems
    assert len(problems) == 4
    for expected in (
        "/empty.md: the file is empty",
        "/large.txt: longer than 268,435,456 bytes",
        "the file name 'no\\udcffutf8.md' is not UTF-8: rename the file",
        "/pipe.md is no regular file",
    ):
        assert [each for each in problems if expected in each], expected
    names = {f"{number}.md" for number in range(4)} | {"good.md"}
    assert ids(tmp_path) == names | {deep.relative_to(folder).as_posix() + "/deep.md"}
    assert len(sync().problems) == 4


def test_a_watch_goes_on_after_an_error_that_nobody_foresaw(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("swiftlet.sync.watch._SECONDS_AFTER_PROBLEM", 0)
    errors = [ZeroDivisionError(), ZeroDivisionError(), KeyError("a")]

    def look(self: Folder, *_: object) -> object:
        if errors and index.exists():
            raise errors.pop()
        return looked(self)

    index, looked = tmp_path / "index", Folder.look
    monkeypatch.setattr(Folder, "look", look)
    with watched(folder, tmp_path) as (_, done, warnings):
        wait_until(lambda: done)
    assert [each.partition(";")[0] for each in warnings] == ["KeyError('a')", "ZeroDivisionError()"]


def test_kinds_that_are_not_read_are_named_and_an_index_in_the_folder_is_left_out(folder, tmp_path):
    (folder / "sound.mp3").write_bytes(b"ID3")
    (folder / "table.csv").write_text("a,b\n1,2\n")
    (folder / "Makefile").touch()
    index = folder / "index"
    arguments = "sync", index, folder, "--encoder", LOOKUP_QUERY_ENCODER.name
    for expected in ("4 files put, 0 deleted", "0 files put, 0 deleted"):
        ran = swiftlet(*arguments)
        assert expected in ran.stdout
        assert ran.stdout.count(" put, ") == 1
        said = (
            "3 files skipped: 1 .mp3, 1 .csv, 1 without a suffix (Makefile); to search a file of "
            ".csv, run swiftlet index FILE"
        )
        assert said in " ".join(ran.stderr.split())


def test_a_problem_is_named_once_until_a_look_at_all_files_does_not_find_it(sync, folder, capsys):
    written(folder / "a.txt", "")
    printed = set()
    report(folder, sync(), printed)
    report(folder, sync(["1.md"]), printed)
    report(folder, sync(), printed)
    assert capsys.readouterr().err.count("a.txt") == 1
    (folder / "a.txt").unlink()
    report(folder, sync(), printed)
    written(folder / "a.txt", "")
    report(folder, sync(["a.txt"]), printed)
    assert capsys.readouterr().err.count("a.txt") == 1


def test_a_file_that_is_being_written_is_left_for_later(folder, sync, tmp_path, monkeypatch):
    path = folder / "growing.md"
    path.write_text(note(5))
    with monkeypatch.context() as patched:
        patched.setattr(rounds, "sleep", lambda _: path.write_text(note(5, "more")))
        done = sync()
    assert (done.waiting, done.num_put) == (["growing.md"], 0)
    assert (sync().num_put, ids(tmp_path) >= {"growing.md"}) == (1, True)


@pytest.mark.usefixtures("sync")
def test_a_single_sync_names_files_that_go_on_changing(folder, tmp_path, monkeypatch, capsys):
    names = [f"{number}.log" for number in range(7)]

    def write(_: float) -> None:
        for name in names:
            (folder / name).write_text(f"{time.time_ns()}")

    write(0)
    monkeypatch.setattr(rounds, "sleep", write)
    monkeypatch.setattr(rounds, "_SETTLED_NS", 1 << 60)
    monkeypatch.setattr(rounds, "_PATIENCE_SECONDS", 3_600)
    sync_command(tmp_path / "index", folder, watch=False, encoder=None, threads=None)
    said = " ".join(capsys.readouterr().err.split())
    sentence = "still being written, so left for the next sync: 0.log, 1.log, 2.log, 3.log, 4.log"
    assert f"{sentence} and 2 more" in said


def test_a_file_that_goes_on_changing_is_read_as_it_is_in_the_end(
    folder, sync, tmp_path, monkeypatch
):
    seen = SeenFiles(tmp_path / "index", folder)
    log, reader = folder / "app.md", FolderReader(Folder(folder), seen)
    written(log, note(5))
    sync()
    with monkeypatch.context() as patched, IndexWriter(tmp_path / "index", None) as writer:
        lines = iter("abcdefgh")
        patched.setattr(rounds, "sleep", lambda _: log.write_text(note(5, next(lines))))
        following = FolderSync(reader, writer)
        log.write_text(note(5, "!"))
        assert following.round().waiting == ["app.md"]
        patched.setattr(rounds, "monotonic", lambda: time.monotonic() + 9)
        assert following.round(["app.md"]).waiting == ["app.md"]
        patched.setattr(rounds, "monotonic", lambda: time.monotonic() + 11)
        assert (following.round(["app.md"]).num_put, next(lines)) == (1, "c")
    assert text_of(tmp_path, "app.md").endswith("5 b")
    assert (sync().num_put, sync()) == (1, Round())


def test_a_file_that_goes_on_changing_holds_up_no_other_file(folder, monkeypatch):
    monkeypatch.setattr("swiftlet.sync.watch._LONGEST_BURST_SECONDS", 1e9)
    stop, ended = threading.Event(), threading.Event()
    watcher = _Watcher(folder, stop)

    def write() -> None:
        while not ended.wait(0.02):
            (folder / "app.bin").write_text("more")

    writing = threading.Thread(target=write)
    writing.start()
    try:
        assert watcher.changes() >= {""}
        assert watcher.changes() == {"app.bin"}
    finally:
        ended.set()
        writing.join()


def test_a_file_that_changes_while_it_is_read_is_read_again(folder, sync, tmp_path, monkeypatch):
    written(folder / "0.md", note(5))
    with monkeypatch.context() as patched:

        def read_file(path: Path, *others: object) -> Iterator[Document]:
            yield from documents.read_file(path, *others)
            written(path, note(6, "more"), seconds_ago=90)

        patched.setattr(ahead, "read_file", read_file)
        assert (sync().waiting, sync().num_put) == (["0.md"], 0)
    assert (sync().num_put, sync()) == (1, Round())
    assert text_of(tmp_path, "0.md").endswith("6 more")


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_process_beside_reads_the_same_and_may_end_at_any_time(folder, tmp_path, is_killed):
    written(folder / "empty.md", "")
    written(folder / "damaged.ipynb", "{")
    reader, done = FolderReader(Folder(folder), SeenFiles(tmp_path / "index", folder)), Round()
    expected = [*reader.documents(done)]
    (tmp_path / ".index.files").unlink()
    reader, again = FolderReader(Folder(folder), SeenFiles(tmp_path / "index", folder)), Round()
    beside = ahead.ReadAhead(folder)
    if is_killed:
        beside.process.kill()
    assert [*reader.documents(again, beside)] == expected
    assert (again, len(again.problems)) == (done, 2)
    assert beside.begin(partial(sorted, [2, 1]))() == [1, 2]
    wait_until(lambda: not beside.process.is_alive())


def test_an_edit_is_followed_after_a_clock_went_back(folder, sync, tmp_path):
    written(folder / "0.md", note(5), seconds_ago=10**6)
    assert sync().num_put == 1
    assert text_of(tmp_path, "0.md").startswith("# Note 5")


def test_a_file_that_is_touched_has_its_new_date(folder, sync, tmp_path):
    for seconds in (2e9 + 0.9999999999, 9.3e9, -1.5):
        os.utime(folder / "0.md", (seconds, seconds))
        done = sync()
        assert (done.num_put, done.num_encoded) == (1, 0)
        (tmp_path / ".index.files").unlink()
        assert sync() == Round()
    with Searcher.open(tmp_path / "index", LOOKUP_QUERY_ENCODER) as searcher:
        assert searcher.document("0.md").metadata["modified"] == "1969-12-31T23:59:58+00:00"


def test_files_that_vanish_while_they_are_looked_for_and_read_are_deleted_without_a_line(
    folder, sync, tmp_path, monkeypatch
):
    written(folder / "sub" / "4.md", note(4))
    sync()
    for number in range(4):
        written(folder / f"{number}.md", note(number, "more"))

    def removed(path: Path, call: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object) -> object:
            path.unlink(missing_ok=True)
            return call(*arguments)

        return run

    def scandir(path: Path) -> object:
        if path == folder / "sub":
            (path / "4.md").unlink()
            path.rmdir()
        return real(path)

    real = os.scandir
    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", scandir)
        patched.setattr(rounds, "_hash", removed(folder / "0.md", rounds._hash))
        patched.setattr(ahead, "read_file", removed(folder / "1.md", ahead.read_file))
        done = sync()
    assert (done.num_deleted, done.problems, done.waiting) == (1, [], ["0.md", "1.md"])
    assert (sync(), ids(tmp_path)) == (Round(num_deleted=2), {"2.md", "3.md"})


def text_of(tmp_path: Path, document_id: str) -> str:
    with Searcher.open(tmp_path / "index", LOOKUP_QUERY_ENCODER) as searcher:
        return searcher.document(document_id).text.strip()


def test_a_text_that_is_too_long_is_left_out_by_name(folder, sync, tmp_path, monkeypatch):
    monkeypatch.setattr(ahead, "LONGEST_TEXT", 2_000)
    written(folder / "0.md", note(0) * 2)
    (problem,) = sync().problems
    assert "/0.md: its text has 2,984 characters" in problem
    assert "at most 2,000 are followed: divide the file" in problem
    assert ids(tmp_path) == {"1.md", "2.md", "3.md"}


def test_a_folder_is_followed_whose_name_is_no_utf_8(folder, tmp_path):
    folder = folder.rename(tmp_path / os.fsdecode(b"caf\xe9"))
    SeenFiles(tmp_path / "index", folder).close()  # so the name of the folder is remembered
    with watched(folder, tmp_path) as (writer, _, warnings):
        written(folder / "new.md", note(9))
        wait_until(lambda: writer.num_documents == 5)
    assert warnings == []


def test_names_that_are_no_utf_8_do_not_keep_other_files_from_being_followed(folder, tmp_path):
    bad = os.fsdecode(b"caf\xe9")
    written(folder / "sub" / bad / "a.md", "text")
    with watched(folder, tmp_path) as (writer, done, warnings):
        for number in (5, 6):
            written(folder / f"{bad}{number}.md", "text")
            written(folder / "sub" / f"{number}.md", note(number))
            wait_until(lambda: writer.num_documents == number)  # noqa: B023
    assert warnings == []
    assert {"".join(sorted(each.waiting)) for each in done} == {""}


def test_a_folder_that_vanishes_or_is_another_one_deletes_nothing(folder, sync, tmp_path):
    for number in range(20):
        written(folder / f"{number}.md", note(number))
    sync()
    hidden = folder.rename(tmp_path / "away")
    with pytest.raises(FolderGoneError, match="is no folder now: nothing is deleted"):
        sync()
    folder.mkdir()
    with pytest.raises(OtherFolderError, match="nothing is deleted: it may be another folder"):
        sync()
    folder.rmdir()
    hidden.rename(folder)
    assert sync() == Round()
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(InvalidArgumentError, match=r"follows .*: sync .* into an index of its own"):
        SeenFiles(tmp_path / "index", other)


def test_a_wrong_encoder_is_refused_also_when_no_file_has_changed(folder, sync, tmp_path):
    ran = swiftlet("sync", tmp_path / "index", folder, "--encoder", DEFAULT_ENCODER.name)
    assert "name that encoder, or encode again" in refusal(ran)


def test_an_encoder_that_was_chosen_automatically_is_remembered(folder, tmp_path):
    for expected in ("4 files put", "1 file put"):
        assert expected in swiftlet("sync", tmp_path / "index", folder, "--encoder", "auto").stdout
        written(folder / "new.md", note(9))


def test_a_sync_that_makes_no_index_leaves_nothing(folder, tmp_path):
    empty, own = tmp_path / "empty", tmp_path / "own"
    empty.mkdir()
    own.mkdir()
    for index, followed, sentence in (
        ("index", tmp_path / "absent", "is no folder: nothing is deleted"),
        ("index", empty, "has no file that can be read: put one into it first"),
        ("own", folder, "is there and is no index: name another place for it"),
    ):
        assert sentence in refusal(swiftlet("sync", tmp_path / index, followed))
    assert {each.name for each in tmp_path.iterdir()} == {"empty", "own", "folder"}


def test_a_folder_that_cannot_be_read_keeps_its_documents(folder, sync, tmp_path, monkeypatch):
    written(folder / "sub" / "a.md", note(11))
    sync()
    listed = os.scandir

    def scandir(path: Path | int) -> object:  # no permission stops the superuser
        if isinstance(path, Path) and path.name == "sub":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    (problem,) = sync().problems
    assert "sub cannot be read: Permission denied" in problem
    assert "sub/a.md" in ids(tmp_path)


def test_a_full_disk_loses_nothing_and_sync_goes_on(folder, small_disk):
    index, seen = small_disk / "index", SeenFiles(folder.parent / "index", folder)
    reader = FolderReader(Folder(folder), seen)
    build(reader.documents(Round()), index, encoder=LOOKUP_QUERY_ENCODER)
    with IndexWriter(index, LOOKUP_QUERY_ENCODER) as writer:
        following = FolderSync(reader, writer)
        rest = small_disk / "rest"
        with rest.open("wb", 0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        written(folder / "new.md", note(9) * 30)
        with pytest.raises(StorageError):
            following.round()
        assert writer.num_documents == 4
        rest.unlink()
        assert following.round().num_put == 1
        assert writer.num_documents == 5


def test_a_first_index_on_a_full_disk_is_one_sentence_and_made_when_there_is_room(
    folder, small_disk
):
    rest = small_disk / "rest"
    rest.write_bytes(bytes(900_000))
    with pytest.raises(StorageError, match="No space left"):
        build_first(small_disk / "index", folder, Silence())
    rest.unlink()
    assert build_first(small_disk / "index", folder, Silence()).num_put == 4


def test_a_watch_follows_changes_bursts_and_a_folder_that_comes_back(folder, tmp_path):
    with watched(folder, tmp_path) as (writer, done, warnings):
        wait_until(lambda: done)
        (folder / "new").mkdir()
        for number in range(50):
            (folder / "new" / f"{number}.md").write_text(note(number))
        wait_until(lambda: writer.num_documents == 54)
        assert len(done) < 25
        (folder / ".gitignore").write_text("new/[1-4]?.md\n")
        wait_until(lambda: writer.num_documents == 14)
        folder.rename(tmp_path / "away")
        wait_until(lambda: warnings)
        (tmp_path / "away" / "0.md").unlink()
        (tmp_path / "away").rename(folder)
        wait_until(lambda: writer.num_documents == 13)
    assert len(warnings) == 1
    assert "is no folder now: nothing is deleted; it is tried again every 5 seconds" in warnings[0]
