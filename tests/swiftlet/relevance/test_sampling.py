from collections import Counter
from pathlib import Path

import pytest

from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.errors import CollectionError
from swiftlet.index.building.build import BuildSettings, build_index
from swiftlet.relevance.log import Click, LoggedSearch, LogWriter
from swiftlet.relevance.sampling import By, queries_of_corpus, queries_of_log
from swiftlet.search.opening import open_searcher
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document, Section


def searched(query: str, at: float, **fields: object) -> LoggedSearch:
    values = {"id": f"{query}@{at}", "session": "", "mode": "dense", "hits": [("bees-1", 0.99)]}
    return LoggedSearch(time=at, query=query, index="1", **{**values, **fields})


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A query of a hundred searches, ten of ten, a hundred of one."""
    entries = [searched("often", n) for n in range(100)]
    entries += [searched(f"usual {n % 10}", n) for n in range(100)]
    entries += [searched(f"rare {n}", n) for n in range(100)]
    entries += [searched("hmac:0f1e", 0), searched(" ", 0)]
    writer = LogWriter(tmp_path / "log", most_bytes=2**20, days=30)
    writer.append(entries)
    writer.append(
        [Click(time=0, id=each.id, document_id="bees-1") for each in entries if each.hits]
    )
    writer.close()
    return tmp_path / "log"


def kinds(queries: list[str]) -> Counter[str]:
    return Counter(each.split()[0] for each in queries)


def test_strata_have_equally_many_queries_as_far_as_there_are(
    log: Path, small_searcher: Searcher
) -> None:
    found = queries_of_log(log, small_searcher, 17, "stratified")
    assert kinds(found) == {"often": 1, "usual": 8, "rare": 8}
    assert len({*found}) == 17


def test_frequent_queries_are_drawn_more_often(log: Path, small_searcher: Searcher) -> None:
    found = kinds(queries_of_log(log, small_searcher, 12, "frequency"))
    assert found["often"] == 1
    assert found["usual"] >= 3  # of 10, where each of 100 rare ones has a tenth of the chance


def test_queries_in_doubt_had_no_good_answer(log: Path, small_searcher: Searcher) -> None:
    writer = LogWriter(log, most_bytes=2**20, days=30)
    writer.append([searched("bad", n, hits=[]) for n in range(5)])
    writer.close()
    assert queries_of_log(log, small_searcher, 10, "doubt") == ["bad"]


@pytest.mark.parametrize("by", ["stratified", "frequency", "doubt"])
def test_queries_in_words_alone_are_drawn_the_same_each_time(
    log: Path, small_searcher: Searcher, by: By
) -> None:
    found = queries_of_log(log, small_searcher, 1_000, by)
    assert found == queries_of_log(log, small_searcher, 1_000, by)
    assert not {"hmac:0f1e", " "} & {*found}


def test_a_log_without_a_query_in_words_is_refused(
    tmp_path: Path, small_searcher: Searcher
) -> None:
    writer = LogWriter(tmp_path, most_bytes=2**20, days=30)
    writer.append([searched("hmac:0f1e", 0)])
    writer.close()
    with pytest.raises(CollectionError, match="no query in words"):
        queries_of_log(tmp_path, small_searcher, 10, "stratified")


def test_without_a_log_titles_and_headings_of_documents_are_queries(tmp_path: Path) -> None:
    documents = [
        Document("tea", "Tea is hot.", title="Tea"),
        Document("oven", "It is hot.", sections=(Section(0, 10, "Kitchen > Rye bread"),)),
        Document("plain", "Nothing above it."),
    ]
    build_index(documents, LOOKUP_QUERY_ENCODER, tmp_path / "index", BuildSettings())
    with open_searcher(tmp_path / "index") as searcher:
        assert {*queries_of_corpus(searcher, 10)} == {"Tea", "Rye bread"}
        assert len(queries_of_corpus(searcher, 1)) == 1


def test_a_corpus_without_a_title_is_refused(tmp_path: Path) -> None:
    build_index(
        [Document("plain", "A text.")], LOOKUP_QUERY_ENCODER, tmp_path / "index", BuildSettings()
    )
    with (
        open_searcher(tmp_path / "index") as searcher,
        pytest.raises(CollectionError, match="name a log by --log"),
    ):
        queries_of_corpus(searcher, 10)
