"""The queries of a file, and the mix of requests made of them."""

import json
from collections import Counter
from itertools import islice

from measuring.traffic import Mix, read_queries, traffic

QUERIES = [f"query {number}" for number in range(500)]


def test_kinds_come_as_often_as_their_weights_say():
    requests = islice(traffic(QUERIES, Mix(6, 4), seed=1), 5_000)
    counts = Counter(request.kind for request in requests)
    assert abs(counts["single"] - 3_000) < 150
    assert abs(counts["batch"] - 2_000) < 150


def test_single_queries_come_each_once_before_any_comes_again():
    requests = list(islice(traffic(QUERIES, Mix(), seed=1), 1_000))
    asked = [json.loads(request.body)["query"] for request in requests]
    assert sorted(asked[:500]) == sorted(QUERIES)
    assert asked[:500] == asked[500:]
    assert asked[:500] != QUERIES
    assert {request.path for request in requests} == {"/search"}


def test_a_batch_has_as_many_queries_as_it_should_and_top_k():
    (request,) = islice(traffic(QUERIES, Mix(0, 1, batch_queries=5, top_k=3), seed=1), 1)
    assert request.path == "/search/batch"
    assert len(set(json.loads(request.body)["queries"])) == 5
    assert json.loads(request.body)["top_k"] == 3


def test_the_same_seed_gives_the_same_requests_and_another_one_others():
    first, again, other = (
        list(islice(traffic(QUERIES, Mix(3, 2), seed=seed), 100)) for seed in (1, 1, 2)
    )
    assert first == again != other


def test_a_text_file_has_a_query_a_line_and_blank_lines_are_none(tmp_path):
    file = tmp_path / "queries.txt"
    file.write_text("how do vaccines work\n\n  Größe eines Gletschers \n")
    assert read_queries(file) == ["how do vaccines work", "Größe eines Gletschers"]


def test_a_beir_folder_and_its_file_have_the_texts(tmp_path):
    lines = [json.dumps({"_id": str(number), "text": text}) for number, text in enumerate("abc")]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines))
    assert read_queries(tmp_path) == read_queries(tmp_path / "queries.jsonl") == ["a", "b", "c"]
