"""Searches that a re-ranker orders."""

import sys
from collections.abc import Iterator
from math import inf
from time import perf_counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import swiftlet
from swiftlet.encoders.reranker import OnnxReranker, order_by, score_of
from swiftlet.errors import InvalidArgumentError
from swiftlet.evaluation.evaluate import evaluate
from swiftlet.index.documents.passages import encoder_text
from swiftlet.search.searcher import Searcher
from swiftlet.search.stages.hits import Rerank
from tests.command_line import refusal
from tests.command_line import swiftlet as command

QUERY = "how do volcanoes erupt"


class ByLength:
    """Prefers short texts. Each takes `wait` seconds of its own clock."""

    name = "by length"
    seconds = 0.0

    def __init__(self, wait: float = 0.0, weight: float = 1.0) -> None:
        self.wait = wait
        self.weight = weight
        self.now = perf_counter()

    def score(self, query: str, text: str) -> float:
        return score_of(self.logit(query, text))

    def logit(self, query: str, text: str) -> float:
        assert query == QUERY
        self.now += self.wait
        return 1 / (1 + len(text))


@pytest.fixture
def searcher(small_searcher) -> Iterator[Searcher]:
    small_searcher.reranker = ByLength()
    yield small_searcher
    small_searcher.reranker = None


def test_the_best_documents_are_ordered_by_the_reranker_and_the_others_follow(searcher):
    before = searcher.search(QUERY, 8).hits
    found = searcher.search(QUERY, 8, rerank=5)
    assert found.num_reranked == 5
    expected = sorted(before[:5], key=lambda hit: len(encoder_text(hit.title, hit.passage.text)))
    assert [hit.document_id for hit in found.hits[:5]] == [hit.document_id for hit in expected]
    assert [hit.score for hit in found.hits[:5]] == [hit.score for hit in expected]
    assert found.hits[5:] == before[5:]
    scores = [hit.rerank_score for hit in found.hits]
    assert scores[5:] == [None] * 3
    assert scores[:5] == sorted(filter(None, scores), reverse=True)


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_scores_of_the_search_count_as_much_as_the_weight_says(searcher, mode):
    before = searcher.search(QUERY, 8, mode=mode).hits
    shares = [hit.score / before[0].score for hit in before]
    logits = [1 / (1 + len(encoder_text(hit.title, hit.passage.text))) for hit in before]
    for weight in (0.0, 0.5, 0.9):
        searcher.reranker = ByLength(weight=weight)
        found = searcher.search(QUERY, 8, mode=mode, rerank=8).hits
        both = [
            (1 - weight) * share + weight * logit / 10
            for share, logit in zip(shares, logits, strict=True)
        ]
        order = sorted(range(len(before)), key=lambda place: -both[place])
        assert [hit.document_id for hit in found] == [before[n].document_id for n in order]
        assert [hit.score for hit in found] == [before[n].score for n in order]


@given(
    st.lists(st.floats(-100, 100), min_size=1, max_size=20).map(lambda s: sorted(s, reverse=True)),
    st.floats(0, 1),
)
@example(scores=[2.2e-309, -1.0], weight=0.0)
def test_equal_logits_never_change_the_order(scores, weight):
    both = order_by(scores, [1.0] * len(scores), weight)
    assert np.isfinite(both).all()
    assert (np.diff(both) <= 0).all()


def test_pages_are_parts_of_one_reranked_ranking(searcher):
    whole = searcher.search(QUERY, 8, rerank=6).hits
    for offset in range(0, 8, 2):
        assert searcher.search(QUERY, 2, offset=offset, rerank=6).hits == whole[offset : offset + 2]


def test_documents_that_are_too_late_keep_their_places(searcher, monkeypatch):
    before = searcher.search(QUERY, 9).hits
    none = searcher.search(QUERY, 9, rerank=9, deadline=perf_counter())
    assert (none.hits, none.num_reranked) == (before, 0)
    searcher.reranker = slow = ByLength(wait=0.05)
    monkeypatch.setattr(sys.modules[Rerank.__module__], "perf_counter", lambda: slow.now)
    some = searcher.search(QUERY, 9, rerank=9, deadline=slow.now + 0.3)
    assert 0 < some.num_reranked < 9
    assert some.hits[some.num_reranked :] == before[some.num_reranked :]


def test_a_reranker_that_would_be_too_late_does_not_begin(searcher):
    searcher.reranker = ByLength()
    searcher.reranker.seconds = 60.0
    assert searcher.search(QUERY, 9, rerank=9, deadline=perf_counter() + 1).num_reranked == 0
    assert searcher.search(QUERY, 9, rerank=9, deadline=inf).num_reranked == 9


def test_there_is_nothing_to_rerank_without_documents(searcher):
    found = searcher.search(QUERY, 9, rerank=9, min_score=9.0)
    assert (found.hits, found.num_reranked) == ([], 0)


def test_bad_arguments_are_refused(searcher):
    for wrong in (0, -1, True, 1.5, "3"):
        with pytest.raises(InvalidArgumentError, match="rerank is"):
            searcher.search(QUERY, rerank=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="give either rerank or group_by"):
        searcher.search_groups(QUERY, group_by="topic", rerank=3)
    searcher.reranker = None
    with pytest.raises(InvalidArgumentError, match="rerank is 3, but there is no re-ranker: name"):
        searcher.search(QUERY, rerank=3)


def test_a_reranker_is_used_by_python_and_the_command_line(
    small_index, reranker_directory, tmp_path
):
    with swiftlet.open(small_index, reranker=reranker_directory) as searcher:
        found = searcher.search(QUERY, 3, rerank=5).hits
        scorer = OnnxReranker.load(reranker_directory)
        best = searcher.search(QUERY, 5).hits
        scores = {
            hit.document_id: scorer.score(QUERY, encoder_text(hit.title, hit.passage.text))
            for hit in best
        }
        assert {hit.document_id: hit.rerank_score for hit in found} == {
            name: scores[name] for name in sorted(scores, key=lambda each: -scores[each])[:3]
        }
        qrels = {"q": {found[0].document_id: 1}}
        report = evaluate(searcher, {"q": QUERY}, qrels, metrics=["MRR@10"], rerank=5)
        assert report.means == {"MRR@10": 1.0}
    options = ("--reranker", reranker_directory, "--rerank", 5)
    result = command("search", small_index, QUERY, *options, "--top-k", 3)
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines()]
    assert [row[1:4] for row in rows if row and row[0].isdigit()] == [
        [f"{hit.score:.4f}", f"{hit.rerank_score:.4f}", hit.document_id] for hit in found
    ]
    evaluation = ("evaluate", small_index, "--queries", "q", "--qrels", "q")
    for words in (("search", small_index, QUERY), evaluation):
        said = refusal(command(*words, "--reranker", reranker_directory))
        assert "pass --rerank 20, too" in said
    said = refusal(command("search", small_index, QUERY, "--rerank", 5))
    assert "there is no re-ranker: name its directory with the option --reranker" in said
    asked, relevant = tmp_path / "queries.tsv", tmp_path / "qrels.txt"
    asked.write_text(f"q\t{QUERY}\n")
    relevant.write_text(f"q 0 {found[0].document_id} 1\n")
    judged = ("--queries", asked, "--qrels", relevant)
    said = refusal(command("evaluate", small_index, *judged, "--rerank", 5))
    assert "there is no re-ranker: name its directory" in said
    assert "query 'q'" not in said
    said = refusal(command("search", small_index, QUERY, "--reranker", small_index, *options[2:]))
    assert "is of kind 'index', but 'reranker' is needed" in said
