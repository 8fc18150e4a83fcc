"""The first index of a folder, and the one that takes its place."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from swiftlet.corpora.files import documents
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER
from swiftlet.errors import ArtefactError
from swiftlet.manifest import read_manifest
from swiftlet.progress import Silence
from swiftlet.publication import writer_lock
from swiftlet.search.searcher import Searcher
from swiftlet.sync import ahead
from swiftlet.sync.refine import build_first, follow, is_first
from swiftlet.types import Document
from tests.polling import wait_until


def test_the_final_index_takes_the_place_of_the_first_with_all_that_came_between(tmp_path):
    folder, index = tmp_path / "folder", tmp_path / "place" / "index"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\nBees gather nectar.")
    assert build_first(index, folder, Silence()).num_put == 5
    assert is_first(index)
    stop, warnings = threading.Event(), list[str]()

    class Meanwhile(Silence):
        """Changes the folder while the document encoder works."""

        def begin(self, name: str, total: int | None, done: int = 0) -> None:
            if name == "Encoding passages":
                (folder / "between.md").write_text("# Lava\n\nVolcanoes erupt.")
                (folder / "0.md").unlink()
                assert wait_until(lambda: searcher.refresh() and searcher.num_documents == 5)

    arguments = index, folder, Meanwhile(), lambda _: None, warnings.append
    following = threading.Thread(target=follow, args=arguments, kwargs={"threads": 1, "stop": stop})
    with Searcher.open(index, DEFAULT_QUERY_ENCODER) as searcher:
        following.start()
        try:
            wait_until(lambda: not is_first(index))
            (folder / "after.md").write_text("# Tea\n\nLeaves in hot water.")
            wait_until(lambda: searcher.refresh() and searcher.num_documents == 6)
            found = {hit.document_id for hit in searcher.search("notes").hits}
            encoder = searcher.index_manifest.details["encoder_fingerprint"]
        finally:
            stop.set()
            following.join()
    assert encoder == read_manifest(DEFAULT_ENCODER).fingerprint
    assert found == {"1.md", "2.md", "3.md", "4.md", "after.md", "between.md"}
    assert warnings == []
    assert {path.name for path in folder.iterdir()} == found
    wait_until(lambda: not index.with_name("index.final").exists())


@pytest.mark.parametrize("is_killed", [False, True])
def test_words_that_a_process_beside_indexes_are_the_same(tmp_path, is_killed):
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\nBees gather nectar.")
    beside = ahead.ReadAhead(folder)
    if is_killed:
        beside.process.kill()
    assert build_first(tmp_path / "two" / "index", folder, Silence(), ahead=beside).num_put == 5
    wait_until(lambda: not beside.process.is_alive())
    build_first(tmp_path / "one" / "index", folder, Silence())
    one, two = (read_manifest(tmp_path / name / "index").files for name in ("one", "two"))
    assert one == two


def test_a_document_that_no_index_takes_is_a_problem_of_its_file(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.md").write_text("Bees gather nectar.")
    (folder / "b.md").write_text("Lava flows.")

    def read_file(path: Path, *others: object) -> Iterator[Document]:
        """As a reader of another package may give it."""
        for each in documents.read_file(path, *others):
            each.metadata.update({"colour": {1j}} if path.name == "b.md" else {})
            yield each

    monkeypatch.setattr(ahead, "read_file", read_file)
    done = build_first(tmp_path / "place" / "index", folder, Silence())
    (problem,) = done.problems
    assert done.num_put == 1
    assert problem.startswith(f"{folder / 'b.md'}: the metadata cannot be stored as JSON: 'colour'")


def test_nothing_is_refined_while_another_process_follows_the_folder(tmp_path):
    folder, index = tmp_path / "folder", tmp_path / "place" / "index"
    folder.mkdir()
    (folder / "a.md").write_text("Bees gather nectar.")
    build_first(index, folder, Silence())
    with writer_lock(index), pytest.raises(ArtefactError, match="another process"):
        follow(index, folder, Silence(), lambda _: None, print, threads=1, stop=threading.Event())
    assert [each for each in index.parent.iterdir() if "final" in each.name] == []
