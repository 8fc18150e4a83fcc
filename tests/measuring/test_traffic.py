"""The queries of a file, and the mix of requests made of them."""

import json
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from loadtests.arguments import DEMO_QUERIES
from measuring.command_line import Parser
from measuring.traffic import Mix, add_mix_options, read_queries, traffic
from swiftlet.errors import RetrievalError

QUERIES = [f"query {number}" for number in range(500)]


def test_kinds_come_as_often_as_their_weights_say() -> None:
    requests = islice(traffic(QUERIES, Mix(6, 4), seed=1), 5_000)
    counts = Counter(request.kind for request in requests)
    assert abs(counts["single"] - 3_000) < 150
    assert abs(counts["batch"] - 2_000) < 150


def test_single_queries_come_each_once_before_any_comes_again() -> None:
    requests = list(islice(traffic(QUERIES, Mix(), seed=1), 1_000))
    asked = [json.loads(request.body)["query"] for request in requests]
    assert sorted(asked[:500]) == sorted(QUERIES)
    assert asked[:500] == asked[500:]
    assert asked[:500] != QUERIES
    assert {request.path for request in requests} == {"/search"}


def test_a_batch_has_as_many_queries_as_it_should_and_top_k() -> None:
    (request,) = islice(traffic(QUERIES, Mix(0, 1, batch_queries=5, top_k=3), seed=1), 1)
    assert request.path == "/search/batch"
    assert len(set(json.loads(request.body)["queries"])) == 5
    assert json.loads(request.body)["top_k"] == 3


def test_the_same_seed_gives_the_same_requests_and_another_one_others() -> None:
    first, again, other = (
        list(islice(traffic(QUERIES, Mix(3, 2), seed=seed), 100)) for seed in (1, 1, 2)
    )
    assert first == again != other


def test_a_text_file_has_a_query_a_line_and_blank_lines_are_none(tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    file.write_text("how do vaccines work\n\n  Größe eines Gletschers \n")
    assert read_queries(file) == ["how do vaccines work", "Größe eines Gletschers"]


def test_a_beir_folder_and_its_file_have_the_texts(tmp_path: Path) -> None:
    lines = [json.dumps({"_id": str(number), "text": text}) for number, text in enumerate("abc")]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines))
    assert read_queries(tmp_path) == read_queries(tmp_path / "queries.jsonl") == ["a", "b", "c"]


def test_the_demo_has_queries_of_its_own() -> None:
    queries = read_queries(DEMO_QUERIES)
    assert len(queries) >= 50
    assert len(set(queries)) == len(queries)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("empty.txt", b"", "the file is empty"),
        ("latin.txt", b"Gr\xf6\xdfe", "line 1: not valid UTF-8"),
        ("bad.jsonl", b'{"text": "a"}\nnothing', "line 2: not valid JSON"),
        ("blank.jsonl", b'{"text": " "}', "line 1: the query 'without an id' has no text"),
    ],
)
def test_a_bad_file_is_refused_by_name(
    tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(RetrievalError) as refusal:
        read_queries(file)
    assert str(file) in str(refusal.value)
    assert sentence in str(refusal.value)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RetrievalError, match=r"nothing\.txt: cannot be read: No such file"):
        read_queries(tmp_path / "nothing.txt")


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--single", "nan", "a number from 0 to 1e+06"),
        ("--batch-queries", "0", "a whole number from 1 to 10000"),
        ("--top-k", "0", "a whole number from 1 to 10000"),
        ("--seed", "-1", "a whole number from 0 to 2.14748e+09"),
    ],
)
def test_numbers_out_of_bounds_are_refused_by_name(capsys, option, value, expected) -> None:
    parser = Parser(prog="loadtests")
    add_mix_options(parser.add_argument)
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args([f"{option}={value}"])
    expected = f"argument {option}: {value!r} is given; {expected} is expected"
    assert capsys.readouterr().err == f"loadtests: {expected}\n"
