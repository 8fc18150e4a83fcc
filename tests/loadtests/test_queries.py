import json
from pathlib import Path

import pytest

from loadtests.command_line import LoadTestError
from loadtests.traffic import read_queries

ROOT = Path(__file__).parents[2]


def test_a_text_file_has_a_query_a_line_and_blank_lines_are_none(tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    file.write_text("how do vaccines work\n\n  Größe eines Gletschers \n")
    assert read_queries(file) == ["how do vaccines work", "Größe eines Gletschers"]


def test_a_beir_folder_and_its_file_have_the_texts(tmp_path: Path) -> None:
    lines = [json.dumps({"_id": str(number), "text": text}) for number, text in enumerate("abc")]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines))
    assert read_queries(tmp_path) == read_queries(tmp_path / "queries.jsonl") == ["a", "b", "c"]


def test_the_demo_has_queries_of_its_own() -> None:
    queries = read_queries(ROOT / "loadtests" / "demo-queries.txt")
    assert len(queries) >= 50
    assert len(set(queries)) == len(queries)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("empty.txt", b"", "contains no query; at least 1 is expected"),
        ("blank.txt", b"\n \n", "contains no query; at least 1 is expected"),
        ("empty.jsonl", b"", "contains no query; at least 1 is expected"),
        ("latin.txt", b"Gr\xf6\xdfe", "are not UTF-8"),
        ("bad.jsonl", b'{"text": "a"}\nnothing', "line 2: an object with a text"),
        ("other.jsonl", b'{"query": "a"}', "line 1: an object with a text"),
        ("list.jsonl", b'["a"]', "line 1: an object with a text"),
        ("blank.jsonl", b'{"text": " "}', "line 1: an object with a text that is not blank"),
    ],
)
def test_a_bad_file_is_refused_by_name(
    tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(LoadTestError) as refusal:
        read_queries(file)
    assert str(file) in str(refusal.value)
    assert sentence in str(refusal.value)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(LoadTestError, match=r"nothing\.txt cannot be read: No such file"):
        read_queries(tmp_path / "nothing.txt")
