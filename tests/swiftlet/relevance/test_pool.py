import json
from pathlib import Path

import pytest

from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.errors import CollectionError, InvalidArgumentError
from swiftlet.index.building.build import build_index
from swiftlet.progress import Silence
from swiftlet.relevance.pool import Pool, has_pool, new_pool, pooled, read_pool, write_pool
from swiftlet.search.opening import open_searcher
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document

QUERIES = ["where is lava?", "how is bread baked", "who dances for honey?"]


def found(pool: Pool, searcher: Searcher, depth: int = 5) -> Pool:
    return pooled(pool, [searcher], depth, Silence())


@pytest.fixture(scope="module")
def pool(small_searcher: Searcher) -> Pool:
    return found(new_pool(QUERIES), small_searcher)


def test_a_pool_has_what_each_mode_finds(pool: Pool, small_searcher: Searcher) -> None:
    for query in pool.queries:
        best = {
            hit.document_id
            for mode in small_searcher.modes
            for hit in small_searcher.search(query.text, 5, mode=mode).hits
        }
        assert {each.document_id for each in query.documents} == best
    assert len(pool) == len(pool.pairs) > 15


def test_a_judge_cannot_tell_which_mode_found_a_document(
    pool: Pool, small_searcher: Searcher, tmp_path: Path
) -> None:
    write_pool(tmp_path, pool)
    written = json.loads((tmp_path / "pool.json").read_text())
    fields = {"document_id", "title", "heading", "passage", "highlights"}
    assert {
        name for query in written["queries"] for each in query["documents"] for name in each
    } == (fields)
    # The order is that of no search.
    for query in pool.queries:
        order = [each.document_id for each in query.documents]
        for mode in small_searcher.modes:
            hits = small_searcher.search(query.text, 5, mode=mode).hits
            ranked = [hit.document_id for hit in hits if hit.document_id in order]
            assert [name for name in order if name in ranked] != ranked


def test_the_words_of_the_query_are_marked_in_the_passage(pool: Pool) -> None:
    (lava, *_) = pool.queries
    marked = {each.passage[slice(*span)] for each in lava.documents for span in each.highlights}
    assert "lava" in marked


def test_a_pool_is_read_as_it_was_written(pool: Pool, tmp_path: Path) -> None:
    assert not has_pool(tmp_path / "new")
    write_pool(tmp_path / "new", pool)
    assert has_pool(tmp_path / "new")
    assert read_pool(tmp_path / "new") == pool


def test_the_same_queries_and_index_make_the_same_pool(
    pool: Pool, small_searcher: Searcher
) -> None:
    assert found(new_pool(QUERIES), small_searcher) == pool
    assert len(new_pool(["Lava", "lava"]).queries) == 1


def test_another_search_adds_to_a_pool_and_changes_no_document_of_it(
    pool: Pool, small_searcher: Searcher
) -> None:
    more = found(pool, small_searcher, depth=10)
    for earlier, later in zip(pool.queries, more.queries, strict=True):
        assert earlier.query_id == later.query_id
        assert len(later.documents) > len(earlier.documents)
        assert [each for each in later.documents if each in earlier.documents] == earlier.documents


def test_documents_that_are_gone_are_left_out(pool: Pool) -> None:
    gone = pool.pairs[0][1]
    held = pool.held(lambda document_id: document_id != gone)
    assert held.pairs == [pair for pair in pool.pairs if pair[1] != gone]
    with pytest.raises(CollectionError, match="the pool of another index"):
        pool.held(lambda _: False)


def test_an_index_without_words_is_searched_by_meaning(tmp_path: Path) -> None:
    texts = ["Lava is hot.", "Bread is baked."]
    documents = [Document(f"{n}", text) for n, text in enumerate(texts)]
    build_index(documents, LOOKUP_QUERY_ENCODER, tmp_path / "index")
    with open_searcher(tmp_path / "index") as searcher:
        assert len(found(new_pool(["lava"]), searcher)) == 2


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "damaged, or of another program"),
        (b'{"queries": 3}', "damaged, or of another program"),
        (b'{"queries": [], "format": 2}', "of the format 2; 1 is expected"),
    ],
)
def test_a_file_that_is_no_pool_is_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "pool.json").write_bytes(content)
    with pytest.raises(CollectionError, match=sentence):
        read_pool(tmp_path)


def test_a_folder_with_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="make it by swiftlet judge"):
        read_pool(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    for place in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(InvalidArgumentError, match="holds something else"):
            has_pool(place)
