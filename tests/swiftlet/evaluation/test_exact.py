"""Exact search agrees with arithmetic that can be done by hand."""

import numpy as np
import pytest

from swiftlet.encoders.encoding import encode_texts
from swiftlet.errors import InvalidArgumentError
from swiftlet.evaluation.exact import exact_run, rank
from swiftlet.types import Document, Query

DOCUMENT_IDS = ["b", "a", "c", "d"]
DOCUMENTS = np.array([[1, 0], [1, 0], [0, 1], [-1, 0]], dtype=np.float32)
QUERIES = np.array([[1, 0], [0.6, 0.8]], dtype=np.float32)


def test_documents_stand_best_first_and_ties_go_by_id():
    run = rank(["x", "y"], QUERIES, DOCUMENT_IDS, DOCUMENTS, top_k=3)
    assert {query: list(found) for query, found in run.items()} == {
        "x": ["a", "b", "c"],
        "y": ["c", "a", "b"],
    }
    assert run["y"] == pytest.approx({"c": 0.8, "a": 0.6, "b": 0.6})


@pytest.mark.parametrize(("top_k", "found"), [(1, ["a"]), (2, ["a", "b"]), (9, list("abcd"))])
def test_a_tie_for_the_last_place_goes_by_id(top_k, found):
    assert list(rank(["x"], QUERIES[:1], DOCUMENT_IDS, DOCUMENTS, top_k)["x"]) == found


def test_a_batch_gives_the_results_of_its_queries_alone():
    generator = np.random.default_rng(1)
    queries = generator.normal(size=(600, 8)).astype(np.float32)
    documents = generator.normal(size=(50, 8)).astype(np.float32)
    names = [f"d{n:02}" for n in range(50)]
    run = rank([str(n) for n in range(600)], queries, names, documents, 5)
    for n in (0, 255, 256, 599):
        best = np.argsort(-(documents @ queries[n]))[:5]
        assert list(run[str(n)]) == [names[row] for row in best]


def test_bad_arguments_of_a_ranking_are_refused():
    with pytest.raises(InvalidArgumentError, match="top_k is 0"):
        rank(["x"], QUERIES[:1], DOCUMENT_IDS, DOCUMENTS, 0)
    with pytest.raises(InvalidArgumentError, match="dim 2, but documents have 1"):
        rank(["x"], QUERIES[:1], DOCUMENT_IDS, DOCUMENTS[:, :1], 1)


def test_documents_are_read_with_their_titles_on_any_number_of_threads(shipped_encoder):
    documents = [
        Document("volcano", "It erupts as lava and ash.", title="Volcano"),
        Document("bread", "It is baked in an oven.", title="Bread"),
        Document("erupting", "It erupts as lava and ash."),
    ]
    queries = [Query("v", "volcano"), Query("b", "bread")]
    runs = [
        exact_run(shipped_encoder, shipped_encoder, documents, queries, 2, threads=threads)
        for threads in (1, 4)
    ]
    assert runs[0] == runs[1]
    assert list(runs[0]["v"]) == ["volcano", "erupting"]
    assert next(iter(runs[0]["b"])) == "bread"
    texts = ["Volcano It erupts as lava and ash.", "volcano"]
    embeddings = encode_texts(shipped_encoder, texts)
    assert runs[0]["v"]["volcano"] == pytest.approx(float(embeddings[0] @ embeddings[1]), abs=1e-6)
