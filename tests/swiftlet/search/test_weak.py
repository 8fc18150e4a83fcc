"""The scores that random words reach in an index."""

import pytest

import swiftlet
from swiftlet.search.weak import random_queries, weak_below
from swiftlet.types import Document
from tests.conftest import TOPICS

UNRELATED = "invoice lawyer tax refund deadline"


@pytest.fixture(scope="module")
def searcher(tmp_path_factory):
    out = tmp_path_factory.mktemp("weak") / "index"
    swiftlet.build([Document(name, text) for name, text in TOPICS.items()], out)
    with swiftlet.open(out) as opened:
        yield opened


def test_a_line_of_each_mode_parts_questions_to_this_index_from_questions_to_others(searcher):
    lines = weak_below(searcher)
    assert lines.keys() == {"hybrid", "dense"}
    for mode, line in lines.items():
        answered = searcher.search("how do bees dance to show flowers", 1, mode=mode)[0].score
        other = max((hit.score for hit in searcher.search(UNRELATED, 1, mode=mode)), default=0)
        assert other < line < answered


def test_the_lines_are_the_same_each_time_and_half_of_the_queries_reach_them(searcher):
    assert weak_below(searcher) == weak_below(searcher)
    line = weak_below(searcher)["hybrid"]
    best = [searcher.search(each, 1)[0].score for each in random_queries(searcher)]
    assert 0.45 <= sum(score >= line for score in best) / len(best) <= 0.55


def test_an_index_of_few_words_has_no_lines(tmp_path):
    swiftlet.build([Document("a", "few words")], tmp_path / "index")
    with swiftlet.open(tmp_path / "index") as searcher:
        assert weak_below(searcher) == {}


def test_texts_without_blanks_have_words_of_two_characters(tmp_path):
    texts = [
        "火山爆发时会喷出熔岩和火山灰",
        "面包是用面粉水盐和酵母做的",
        "蜜蜂采集花蜜并制作蜂蜜",
    ] * 10
    swiftlet.build([Document(f"{n}", text) for n, text in enumerate(texts)], tmp_path / "index")
    with swiftlet.open(tmp_path / "index") as searcher:
        queries = random_queries(searcher)
    assert {len(word) for query in queries for word in query.split()} == {2}
