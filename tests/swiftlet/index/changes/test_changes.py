"""Searches of an index that a writer changes."""

import random
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.errors import (
    CorruptIndexError,
    EmbeddingSpaceMismatch,
    RetrievalError,
    StorageError,
    UnknownDocumentError,
)
from swiftlet.index.building.build import BuildSettings, build_index
from swiftlet.index.changes.delta import Delta
from swiftlet.index.changes.log import CHANGES_FILE, Changes
from swiftlet.index.directory import IndexDirectory
from swiftlet.index.updates.directory_writer import IndexWriter
from swiftlet.manifest import (
    FORMAT_VERSION,
    change_details,
    describe_files,
    read_manifest,
    write_manifest,
)
from swiftlet.search.searcher import Searcher
from swiftlet.search.stages import state
from swiftlet.search.stages.state import Generation
from swiftlet.types import Document
from tests.descriptors import only_more_descriptors

pytest_plugins = ["tests.small_disk"]

WORDS = ["tea", "coffee", "snow", "lava", "bread", "violin", "bees", "honey", "tides", "moon"]
QUERIES = ["tea and snow", "lava", "honey of the bees", "moon tides coffee bread"]


def documents(numbers: Sequence[int], seed: int = 0) -> list[Document]:
    found = []
    for number in numbers:
        choice = random.Random(1000 * seed + number)
        text = " ".join(choice.choices(WORDS, k=choice.choice([3, 10, 200])))
        metadata = {"even": number % 2 == 0, "seed": seed}
        found.append(Document(f"{number:04}", text, metadata=metadata))
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("built") / "index"
    build_index(documents(range(0, 120, 2)), LOOKUP_QUERY_ENCODER, out)
    return out


@pytest.fixture
def searcher(index) -> Iterator[Searcher]:
    with Searcher.open(index, LOOKUP_QUERY_ENCODER) as opened:
        yield opened


def results(searcher: Searcher, top_k: int = 1000, **asked: object) -> list[list[tuple]]:
    return [
        [
            (hit.document_id, round(hit.score, 5), hit.passage, hit.metadata)
            for hit in searcher.search(query, top_k, **asked)
        ]
        for query in QUERIES
    ]


def change_at_random(writer: IndexWriter, living: dict[str, Document], seed: int) -> None:
    choice = random.Random(seed)
    for turn in range(6):
        new = documents(choice.sample(range(130), 8), seed=10 * seed + turn)
        writer.put(new)
        living |= {document.document_id: document for document in new}
        gone = choice.sample(sorted(living), 4)
        assert writer.delete(gone).num_documents == 4
        for document_id in gone:
            del living[document_id]


@pytest.mark.parametrize("factory", [None, "PCAR48,IVF4,PQ16x4fs,Refine(SQ8)"])
def test_searches_of_a_changed_index_are_those_of_a_fresh_one(tmp_path, factory, monkeypatch):
    # As in a large index, a search by meaning finds passages that a search by words misses.
    monkeypatch.setattr(state, "FEWEST_HYBRID_CANDIDATES", 1)
    base = documents(range(0, 120, 2))
    settings = BuildSettings(factory=factory, facets=("even", "seed"))
    build_index(base, LOOKUP_QUERY_ENCODER, tmp_path / "index", settings)
    living = {document.document_id: document for document in base}
    with (
        Searcher.open(tmp_path / "index", LOOKUP_QUERY_ENCODER) as searcher,
        IndexWriter(tmp_path / "index", LOOKUP_QUERY_ENCODER) as writer,
    ):
        assert not searcher.refresh()
        for seed in range(2):
            change_at_random(writer, living, seed)
            assert searcher.refresh()
            assert not searcher.refresh()
            assert searcher.change == writer.change
            build_index(living.values(), LOOKUP_QUERY_ENCODER, tmp_path / f"fresh-{seed}", settings)
            with (
                Searcher.open(tmp_path / f"fresh-{seed}", LOOKUP_QUERY_ENCODER) as fresh,
                Searcher.open(tmp_path / "index", LOOKUP_QUERY_ENCODER) as opened,
            ):
                for changed in (searcher, opened):
                    assert changed.num_documents == fresh.num_documents == len(living)
                    assert changed.num_passages == fresh.num_passages
                    assert changed.fields == fresh.fields
                    assert changed.facets() == fresh.facets()
                    assert changed.facets({"even": True}) == fresh.facets({"even": True})
                    for asked in ({}, {"filter": {"even": True}}, {"filter": {"seed": 10 * seed}}):
                        for mode, tolerance in (("dense", 1e-3), ("lexical", 0.3), ("hybrid", 0.3)):
                            found = results(changed, mode=mode, **asked)
                            expected = results(fresh, mode=mode, **asked)
                            assert_similar(found, expected, tolerance)
                            if factory is None and mode == "dense":
                                assert found == expected
                            best = results(changed, 5, mode=mode, **asked)
                            assert best == [hits[:5] for hits in found]
                    embedding = changed.encoder.embed(changed.encoder.tokenise("tea and snow"))
                    scores, rows = changed.parts.index.search(embedding, 1000)
                    ascending = rows.argsort()
                    asked = changed.parts.index.scores(embedding, rows[ascending])
                    assert asked == pytest.approx(scores[ascending], abs=1e-5)
                    for document in documents(range(130)):
                        document_id = document.document_id
                        if document_id in living:
                            assert changed.document(document_id) == living[document_id]
                        else:
                            with pytest.raises(UnknownDocumentError):
                                changed.document(document_id)


def assert_similar(found: list[list[tuple]], expected: list[list[tuple]], tolerance: float) -> None:
    """The average length of passages, and the counts of words, include what is deleted."""
    for one, other in zip(found, expected, strict=True):
        scores = {hit[0]: hit[1] for hit in other}
        assert {hit[0] for hit in one} == set(scores)
        assert all(abs(score - scores[document_id]) < tolerance for document_id, score, *_ in one)


def test_a_word_has_the_same_weight_in_base_and_changes(index, searcher):
    with IndexWriter(index, LOOKUP_QUERY_ENCODER) as writer:
        writer.put([Document("new", "zebra " * 3), Document("other", "quagga " * 3)])
        writer.compact()
        writer.put([Document("newer", "zebra " * 3)])
    searcher.refresh()
    hits = searcher.search("zebra", mode="lexical").hits
    assert [hit.document_id for hit in hits] == ["new", "newer"]
    assert hits[0].score == pytest.approx(hits[1].score, rel=0.5)
    marked = searcher.search("zebra", mode="lexical", highlight="words").hits
    assert [hit.highlights[0] for hit in marked] == [(0, 5), (0, 5)]


IDS = st.text("ab0é光", min_size=1, max_size=3)


@settings(max_examples=5, deadline=None)
@given(st.sets(IDS, min_size=1, max_size=9), st.lists(st.sets(IDS, min_size=1), max_size=3))
def test_ties_are_ordered_by_id_across_base_and_changes(tmp_path_factory, base, batches):
    index = tmp_path_factory.mktemp("ties") / "index"
    same = "the same text"
    build_index([Document(each, same) for each in sorted(base)], LOOKUP_QUERY_ENCODER, index)
    with IndexWriter(index, LOOKUP_QUERY_ENCODER) as writer:
        for batch in batches:
            writer.put([Document(each, same) for each in batch])
    with Searcher.open(index, LOOKUP_QUERY_ENCODER) as searcher:
        found = [hit.document_id for hit in searcher.search("text", 100, mode="dense")]
    assert found == sorted(base.union(*batches))


def test_a_searcher_follows_a_merge_and_running_searches_keep_what_they_have(index, searcher):
    living = {document.document_id: document for document in documents(range(0, 120, 2))}
    stop, failures = threading.Event(), []

    def search() -> None:
        while not stop.wait(0.01):
            hits = searcher.search("tea", 1000, mode="dense").hits
            ids = [hit.document_id for hit in hits]
            if len(ids) != len(set(ids)) or any(hit.passage.text == "" for hit in hits):
                failures.append(ids)

    threads = [threading.Thread(target=search) for _ in range(3)]
    with IndexWriter(index, LOOKUP_QUERY_ENCODER) as writer:
        for thread in threads:
            thread.start()
        for seed in range(3):
            change_at_random(writer, living, seed)
            searcher.refresh()
            writer.compact()
            assert searcher.refresh()
            assert searcher.change == writer.change == read_manifest(index).details["change"]
            assert {hit[0] for hit in results(searcher)[0]} == set(living)
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures


def test_a_refresh_during_a_merge_sees_the_new_base(index, searcher, monkeypatch):
    with IndexWriter(index, LOOKUP_QUERY_ENCODER) as writer:

        def is_newer(changes: Changes) -> bool:
            monkeypatch.undo()
            writer.put(documents([1]))
            writer.compact()
            writer.put(documents([3]))
            return changes.is_newer()

        monkeypatch.setattr(Changes, "is_newer", is_newer)
        assert searcher.refresh()
    assert (searcher.num_documents, searcher.change) == (62, 2)
    assert not searcher.refresh()


def test_a_searcher_of_an_index_without_documents_finds_nothing(index, searcher):
    with IndexWriter(index, LOOKUP_QUERY_ENCODER) as writer:
        writer.delete([document.document_id for document in documents(range(0, 120, 2))])
        searcher.refresh()
        assert searcher.num_documents == searcher.num_passages == 0
        for mode in ("dense", "lexical", "hybrid"):
            assert searcher.search("tea", mode=mode).hits == []
            assert searcher.search("tea", mode=mode, filter={"even": True}).hits == []
        writer.put([Document("one", "tea")])
        searcher.refresh()
        assert [hit.document_id for hit in searcher.search("tea")] == ["one"]


def test_a_refresh_follows_a_new_weight_and_refuses_another_embedding_space(index, searcher):
    change_details(index, {"weight": 0.125})
    assert searcher.refresh()
    assert (searcher.weight, searcher.refresh()) == (0.125, False)
    manifest = read_manifest(index)
    (index / "more").touch()
    files = {**manifest.files, **describe_files(index, ["more"])}
    changed = type(manifest)(
        kind="index", dim=384, embedding_space="other", files=files, created_by="",
        details=manifest.details, format_version=2,
    )  # fmt: skip
    write_manifest(index, changed)
    for _ in range(2):
        with pytest.raises(EmbeddingSpaceMismatch):
            searcher.refresh()
    assert len(searcher.search("tea", 1000)) == 60
    searcher.close()
    with pytest.raises(RetrievalError, match="the searcher is closed"):
        searcher.refresh()


def test_a_searcher_without_descriptors_keeps_what_it_has_or_takes_all_that_is_new(index, tmp_path):
    before = Path(shutil.copytree(index, tmp_path / "before"))
    with IndexWriter(index, LOOKUP_QUERY_ENCODER) as writer:
        writer.put(documents([1]))
        writer.delete(["0000", "0002"])
        writer.compact()
        writer.put(documents([3]))
        writer.delete(["0004"])
        outcomes = set()
        for count in (0, 12, 24, 48):
            place = Path(shutil.copytree(before, tmp_path / f"{count}"))
            with Searcher.open(place, LOOKUP_QUERY_ENCODER) as searcher:
                place.rename(tmp_path / f"earlier-{count}")
                shutil.copytree(index, place)
                with only_more_descriptors(count), suppress(RetrievalError, OSError):
                    searcher.refresh()
                outcomes.add((searcher.change, len(searcher.search("tea", 1000, mode="dense"))))
                searcher.refresh()
                assert searcher.change == writer.change
                assert len(searcher.search("tea", 1000)) == searcher.num_documents == 59
    assert outcomes == {(0, 60), (5, 59)}


def test_a_look_without_descriptors_takes_no_file_for_damaged(searcher, monkeypatch):
    monkeypatch.setattr(IndexDirectory, "seconds_between_looks", 0)
    with only_more_descriptors(0):
        for _ in range(3):
            assert not searcher.refresh()
    assert not searcher.refresh()


@pytest.mark.parametrize("failing", ["the parts", "the generation"])
def test_what_searches_see_stays_as_it_was_if_the_new_state_cannot_be_made(
    index, searcher, monkeypatch, failing
):
    with IndexWriter(index, LOOKUP_QUERY_ENCODER) as writer:
        writer.put(documents([1]))
        writer.compact()
        writer.delete(["0000"])
    change_details(index, {"weight": 0.125})
    weight = searcher.weight

    def refuse(*_: object) -> None:
        raise MemoryError

    for place, name in ((Delta, "extended"), (Generation, "__init__")):
        if (name == "extended") == (failing == "the parts"):
            monkeypatch.setattr(place, name, refuse)
    for _ in range(2):
        with pytest.raises(MemoryError):
            searcher.refresh()
        found = searcher.search("tea", 1000)
        assert (len(found), searcher.change, searcher.weight) == (60, 0, weight)
        assert searcher.document("0000")
    monkeypatch.undo()
    assert searcher.refresh()
    assert (len(searcher.search("tea", 1000)), searcher.change) == (60, 2)
    assert searcher.weight == 0.125
    with pytest.raises(UnknownDocumentError):
        searcher.document("0000")


def test_damaged_changes_are_refused_by_name_until_they_are_whole(index, searcher):
    with IndexWriter(index, LOOKUP_QUERY_ENCODER) as writer:
        writer.put(documents([1]))
    path = index / CHANGES_FILE
    whole = path.read_bytes()
    at = whole.index(b"0001")
    path.write_bytes(whole[:at] + b"1" + whole[at + 1 :])
    for _ in range(2):
        with pytest.raises(CorruptIndexError, match=CHANGES_FILE):
            searcher.refresh()
    with pytest.raises(CorruptIndexError, match=CHANGES_FILE):
        Searcher.open(index, LOOKUP_QUERY_ENCODER)
    path.write_bytes(whole)
    assert searcher.refresh()
    assert searcher.num_documents == 61
    path.write_bytes(b"no database at all" * 1000)
    with pytest.raises(CorruptIndexError, match=CHANGES_FILE):
        Searcher.open(index, LOOKUP_QUERY_ENCODER)


def test_changes_are_read_on_read_only_storage(built, small_disk):
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    index = Path(shutil.copytree(built, small_disk / "index"))
    with IndexWriter(index, LOOKUP_QUERY_ENCODER) as writer:
        writer.put(documents([1]))
        copy = Path(shutil.copytree(index, small_disk / "copy"))
    (copy / f"{CHANGES_FILE}-shm").unlink()
    killed = Path(shutil.copytree(copy, small_disk / "killed"))
    with IndexWriter(killed, LOOKUP_QUERY_ENCODER) as writer:
        writer.put(documents([3]))
        shutil.copytree(killed, small_disk / "left")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for name, count in (("index", 61), ("left", 62)):
        with Searcher.open(small_disk / name, LOOKUP_QUERY_ENCODER) as searcher:
            assert searcher.num_documents == count
            assert not searcher.refresh()
    with pytest.raises(StorageError, match="on read-only storage"):
        Searcher.open(copy, LOOKUP_QUERY_ENCODER)
    with pytest.raises(StorageError, match="cannot write"):
        IndexWriter(index, LOOKUP_QUERY_ENCODER)


def test_an_index_of_an_earlier_format_can_be_changed(index):
    manifest = read_manifest(index)
    details = {name: value for name, value in manifest.details.items() if name != "language"}
    del details["training"]
    files = {name: entry for name, entry in manifest.files.items() if "/" not in name}
    for folder in ("lexical", "columns"):
        shutil.rmtree(index / folder)
    earlier = type(manifest)(
        kind="index", dim=384, embedding_space=manifest.embedding_space, files=files,
        created_by="swiftlet 0.1.0", details=details,
    )  # fmt: skip
    write_manifest(index, earlier)
    with (
        IndexWriter(index, LOOKUP_QUERY_ENCODER) as writer,
        Searcher.open(index, LOOKUP_QUERY_ENCODER) as searcher,
    ):
        writer.put(documents([1]))
        searcher.refresh()
        assert (searcher.modes, len(searcher.search("tea", 1000))) == (("dense",), 61)
        writer.compact()
        searcher.refresh()
        assert (searcher.modes, len(searcher.search("tea", 1000))) == (("dense",), 61)
        assert searcher.search("tea", filter={"even": True}).hits
    assert read_manifest(index).format_version == FORMAT_VERSION


def test_a_generation_names_the_changes_and_not_only_their_number(index, tmp_path):
    def changed(name: str, *numbers: int) -> str:
        copy = shutil.copytree(index, tmp_path / name)
        with IndexWriter(copy, LOOKUP_QUERY_ENCODER) as writer:
            for number in numbers:
                writer.put(documents([number]))
        with Searcher.open(copy, LOOKUP_QUERY_ENCODER) as searcher:
            return searcher.generation

    first = changed("first", 1, 3)
    assert first == changed("same", 1, 3) != changed("other", 5, 3)
    assert first.rpartition("-")[0] == changed("another", 5, 3).rpartition("-")[0]


def test_a_search_reads_the_documents_of_its_generation_after_a_merge(index):
    with Searcher.open(index, LOOKUP_QUERY_ENCODER, readers=1) as searcher:
        with IndexWriter(index, LOOKUP_QUERY_ENCODER) as writer:
            writer.delete(["0000"])
            writer.compact()
        barrier, texts = threading.Barrier(4), []

        def read() -> None:
            barrier.wait()
            texts.extend(
                searcher.parts.store.passages([0])[0].passage.passage_id for _ in range(50)
            )

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(texts) == {"0000#0"}


def test_emptied_changes_are_refused_by_readers_and_writers(index):
    with IndexWriter(index, LOOKUP_QUERY_ENCODER) as writer:
        writer.put(documents([1]))
    path = index / CHANGES_FILE
    whole = path.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM base")
        connection.commit()
    without_base = path.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("DROP TABLE base; CREATE TABLE base (content, format)")
        connection.execute("INSERT INTO base VALUES (NULL, NULL)")
        connection.commit()
    for content in (without_base, path.read_bytes(), b"", whole[: len(whole) // 2]):
        path.write_bytes(content)
        for read in (Searcher.open, IndexWriter):
            with pytest.raises(CorruptIndexError, match=f"{CHANGES_FILE} is damaged"):
                read(index, LOOKUP_QUERY_ENCODER)


def test_a_writer_that_was_killed_while_it_made_the_file_leaves_nothing_in_the_way(index):
    (index / f".{CHANGES_FILE}.partial").write_bytes(b"half a file")
    (index / f"{CHANGES_FILE}-wal").write_bytes(b"the log of a file that was removed")
    with Searcher.open(index, LOOKUP_QUERY_ENCODER) as searcher:
        assert not searcher.refresh()
        with IndexWriter(index, LOOKUP_QUERY_ENCODER) as writer:
            writer.put(documents([1]))
        assert searcher.refresh()
        assert searcher.num_documents == 61
    assert not (index / f".{CHANGES_FILE}.partial").exists()
