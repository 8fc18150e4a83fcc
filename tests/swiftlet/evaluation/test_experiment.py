import threading
from collections import Counter
from pathlib import Path

import pytest

from swiftlet.errors import CollectionError, EvaluationError, QueryError
from swiftlet.evaluation.experiment import match_judgements, run_queries
from swiftlet.evaluation.metrics import evaluate
from swiftlet.progress import Silence
from swiftlet.types import Qrels, Query


class WordOverlap:
    """A retriever that counts shared words; counts its calls too."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts
        self.calls: Counter[str] = Counter()
        self._lock = threading.Lock()

    def retrieve(self, query: str, top_k: int) -> list[tuple[str, float]]:
        with self._lock:
            self.calls[query] += 1
        if not query:
            raise QueryError("the query is empty")
        words = set(query.split())
        scores = {name: float(len(words & set(text.split()))) for name, text in self.texts.items()}
        return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:top_k]

    def holds(self, document_id: str) -> bool:
        with self._lock:
            self.calls[document_id] += 1
        return document_id in self.texts


PATH = Path("qrels/test.tsv")
NUMBERS = [f"n{number}" for number in range(40)]
RETRIEVER_TEXTS = {f"d-{number}": f"{number} and d" for number in NUMBERS}
QUERIES = [Query(f"q-{number}", f"which d is {number}") for number in NUMBERS]
QRELS: Qrels = {f"q-{number}": {f"d-{number}": 1} for number in NUMBERS}


@pytest.mark.parametrize("threads", [1, 8, None])
def test_a_run_has_the_order_of_queries_and_ranks_whatever_the_threads(threads):
    retriever = WordOverlap(RETRIEVER_TEXTS)
    told: list[int] = []
    progress = Silence()
    progress.advance = told.append
    run = run_queries(retriever, QUERIES, top_k=5, threads=threads, progress=progress)
    assert list(run) == [query.query_id for query in QUERIES]
    assert all(
        list(run[query.query_id].items()) == retriever.retrieve(query.text, 5) for query in QUERIES
    )
    assert told == [1] * 40
    assert evaluate(run, QRELS, ["MRR", "R@5"]) == {"MRR": 1.0, "R@5": 1.0}


def test_a_failing_query_is_named_and_ends_the_run():
    retriever = WordOverlap(RETRIEVER_TEXTS)
    queries = [Query("empty", ""), *QUERIES * 50]
    with pytest.raises(EvaluationError, match=r"^query 'empty': the query is empty$"):
        run_queries(retriever, queries, top_k=5, threads=2)
    assert retriever.calls.total() < len(queries)


def test_only_judged_queries_are_chosen_in_the_order_of_their_file():
    qrels: Qrels = {"q-n2": {"d-n2": 1}, "q-n1": {"d-n1": 1, "d-n2": 0}, "q-n3": {}}
    retriever = WordOverlap(RETRIEVER_TEXTS)
    judgements = match_judgements(iter(QUERIES), qrels, retriever.holds, qrels_path=PATH)
    assert [query.query_id for query in judgements.queries] == ["q-n1", "q-n2"]
    assert judgements.qrels == {"q-n1": qrels["q-n1"], "q-n2": qrels["q-n2"]}
    assert judgements.warning == ""
    assert retriever.calls == {"d-n1": 1, "d-n2": 1}


@pytest.mark.parametrize(
    ("unknown_queries", "unknown_documents"),
    [([], ["z"]), (["p"], []), (["p1", "p2"], ["v", "w", "x", "y", "z"])],
)
def test_qrels_of_unknown_queries_or_documents_are_refused_unless_allowed(
    unknown_queries, unknown_documents
):
    qrels: Qrels = {
        "q-n1": {"d-n1": 1, **dict.fromkeys(unknown_documents, 1)},
        **{query_id: {"elsewhere": 1} for query_id in unknown_queries},
    }
    retriever = WordOverlap(RETRIEVER_TEXTS)
    with pytest.raises(CollectionError, match=r"^qrels/test.tsv: the qrels name ") as caught:
        match_judgements(QUERIES, qrels, retriever.holds, qrels_path=PATH)
    message = str(caught.value)
    assert all(repr(unknown) in message for unknown in unknown_queries + unknown_documents[:3])
    assert "elsewhere" not in message
    judgements = match_judgements(
        QUERIES, qrels, retriever.holds, qrels_path=PATH, allow_unknown=True
    )
    # Unknown queries are left out, unknown documents never found.
    assert judgements.qrels == {"q-n1": qrels["q-n1"]}
    assert message.startswith(f"{judgements.warning}; the option --allow-unknown")


@pytest.mark.parametrize(
    ("queries", "qrels", "message"),
    [
        (QUERIES, {}, "there is no judgement"),
        (QUERIES, {"q-n1": {}}, "there is no judgement"),
        (QUERIES, {"q-n1": {"d-n1": 0, "d-n2": -1}}, "no document is relevant"),
        (QUERIES, {"p": {"d-n1": 1}}, "none of the 1 judged queries, such as 'p', is among the 40"),
        ([], {"p": {"d-n1": 1}}, "none of the 1 judged queries, .* is among the 0 queries$"),
    ],
)
def test_judgements_without_a_relevant_document_are_refused(queries, qrels, message):
    with pytest.raises(CollectionError, match=message):
        match_judgements(
            queries, qrels, WordOverlap(RETRIEVER_TEXTS).holds, qrels_path=PATH, allow_unknown=True
        )
