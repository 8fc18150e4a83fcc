"""Several paths, and zip archives."""

from pathlib import Path
from zipfile import ZipFile, ZipInfo

import pytest

from swiftlet.corpora.collections import read_documents, unread_files
from swiftlet.corpora.lines import SkippedLines
from swiftlet.corpora.rows import documents_of
from swiftlet.errors import CollectionError

LINES = '{"_id": "1", "text": "one"}\n{"_id": "2", "text": "two"}\n'


def ids(*paths: Path, **options) -> list[str]:
    return [document.document_id for document in documents_of([*paths], **options)]


@pytest.fixture
def folders(tmp_path) -> list[Path]:
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "readme.md").write_text(f"# {name}\nSome text.")
    (tmp_path / "lines.jsonl").write_text(LINES)
    return [tmp_path / "left", tmp_path / "right", tmp_path / "lines.jsonl"]


def zipped(path: Path, files: dict[str, str | bytes]) -> Path:
    with ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def test_several_paths_are_read_in_order(folders, tmp_path):
    assert ids(*folders) == ["left/readme.md", "right/readme.md", "1", "2"]
    assert ids(folders[0]) == ["readme.md"]
    assert ids(folders[0] / "readme.md", tmp_path / "*.jsonl") == ["readme.md", "1", "2"]


def test_an_id_that_comes_twice_is_refused_across_paths(folders):
    twice = [folders[0] / "readme.md", folders[1] / "readme.md"]
    with pytest.raises(CollectionError, match=r"right/readme.md: the document id 'readme.md' came"):
        ids(*twice)
    skipped = SkippedLines()
    assert ids(*twice, skipped=skipped) == ["readme.md"]
    assert skipped.count == 1
    with pytest.raises(CollectionError, match="line 1: the document id '1' came before"):
        ids(folders[2], folders[2])


def test_an_archive_is_its_only_file_or_folder(tmp_path):
    beir = zipped(
        tmp_path / "beir.zip",
        {"beir/corpus.jsonl": LINES, "beir/queries.jsonl": LINES, "__MACOSX/beir/._corpus": b"\0"},
    )
    assert ids(beir) == ["1", "2"]
    assert ids(zipped(tmp_path / "one.zip", {"deep/one/lines.jsonl": LINES})) == ["1", "2"]
    several = zipped(
        tmp_path / "docs.zip", {"docs/a.md": "# A\nText.", "docs/b/c.txt": "C", "docs/d.xls": "x"}
    )
    assert ids(several) == ["a.md", "b/c.txt"]
    assert ids(several, beir) == ["docs/a.md", "docs/b/c.txt", "1", "2"]
    assert unread_files([several, beir]) == "1 file skipped: 1 .xls"


def test_errors_name_the_file_in_the_archive(tmp_path, caplog):
    bad = zipped(
        tmp_path / "bad.zip", {"a.txt": b"\xc3\xa4\xff", "b.txt": "fine", "c.jsonl": LINES}
    )
    with pytest.raises(CollectionError, match=rf"^{bad}/a.txt: line 1: not valid UTF-8"):
        ids(bad, skipped=SkippedLines(files=False))
    skipped = SkippedLines()
    assert ids(bad, skipped=skipped) == ["b.txt"]
    assert skipped.messages[0].startswith(f"{bad}/a.txt: line 1: not valid UTF-8")
    assert ids(bad) == ["b.txt"]
    assert caplog.messages[-1].startswith(f"left out: {bad}/a.txt: line 1: not valid UTF-8")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_files_of_one_name_in_an_archive_are_named(tmp_path):
    with ZipFile(tmp_path / "twice.zip", "w") as archive:
        for name in ("docs/", "docs/", "docs/a.txt", "docs/b.txt", "docs/a.txt"):
            archive.writestr(name, "" if name.endswith("/") else "text")
    skipped = SkippedLines()
    assert ids(tmp_path / "twice.zip", skipped=skipped) == ["a.txt", "b.txt"]
    problem = "twice.zip/docs/a.txt: the archive has 2 files of this name: only the last one is"
    assert [problem in each for each in skipped.messages] == [True]
    with pytest.raises(CollectionError, match=problem):
        ids(tmp_path / "twice.zip", skipped=SkippedLines(files=False))


def test_an_archive_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    path = tmp_path / "broken.zip"
    path.write_bytes(b"PK no archive")
    with pytest.raises(CollectionError, match=rf"{path}: cannot be read as a zip archive: File is"):
        ids(path)
    fine = zipped(tmp_path / "fine.zip", {"a.txt": "text"})
    content = bytearray(fine.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1  # says that it is encrypted
    content[6] |= 1
    path.write_bytes(content)
    with pytest.raises(CollectionError, match=r"as a zip archive: .* is encrypted, password requ"):
        ids(path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 3}))
    with pytest.raises(
        CollectionError, match=r"it has 4 bytes, but .* has room for 3: unzip it el"
    ):
        list(read_documents(fine))
    empty = zipped(tmp_path / "empty.zip", {})
    with pytest.raises(CollectionError, match="there is no valid document"):
        ids(empty)


def test_nothing_is_written_outside_the_copy(tmp_path):
    out = zipped(tmp_path / "out.zip", {"../../escaped.txt": "text", "b.txt": "b"})
    assert sorted(ids(out)) == ["b.txt", "escaped.txt"]
    assert not [*tmp_path.rglob("escaped.txt")]


def test_a_file_without_a_name_is_refused_in_a_sentence(tmp_path):
    path = zipped(tmp_path / "a.zip", {"a.txt": "Ferns."})
    path.write_bytes(path.read_bytes().replace(b"a.txt", b"\0.txt"))  # a name ends at a NUL
    with pytest.raises(CollectionError, match="cannot be read as a zip archive: "):
        ids(path)


@pytest.mark.parametrize("suffix", [".docx", ".zip"])
def test_the_reason_has_no_part_of_the_file(tmp_path, suffix):
    path = zipped(tmp_path / f"a{suffix}", {"a.txt": "Ferns. " * 5_000})
    content = path.read_bytes()
    # The length of the first name, after which it has the text, too.
    path.write_bytes(content[:26] + b"\xff\x7f" + content[28:])
    with pytest.raises(CollectionError, match="cannot be read as a") as caught:
        ids(path)
    assert len(caught.value.problem) < 200


def test_files_of_an_archive_keep_the_times_of_their_changes(tmp_path):
    with ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(ZipInfo("a.md", (2026, 5, 7, 12, 0, 0)), "good")
        archive.writestr(ZipInfo("b.md", (1999, 2, 31, 0, 0, 0)), "no such day")
    first, second = read_documents(tmp_path / "a.zip")
    assert first.metadata["modified"] == "2026-05-07T12:00:00+00:00"
    assert second.text == "no such day"
