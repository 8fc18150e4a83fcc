import json
from pathlib import Path

import pytest

from measuring.command_line import LoadTestError
from measuring.traffic import read_queries

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
        ("empty.txt", b"", "the file is empty"),
        ("blank.txt", b"\n \n", "the file is empty"),
        ("empty.jsonl", b"", "the file is empty"),
        ("latin.txt", b"Gr\xf6\xdfe", "line 1: not valid UTF-8"),
        ("bad.jsonl", b'{"text": "a"}\nnothing', "line 2: not valid JSON"),
        ("other.jsonl", b'{"words": "a"}', 'line 1: there is no "text"'),
        ("list.jsonl", b'["a"]', "line 1: the record is an array, not a JSON object"),
        ("blank.jsonl", b'{"text": " "}', "line 1: the query 'without an id' has no text"),
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
    with pytest.raises(LoadTestError, match=r"nothing\.txt: cannot be read: No such file"):
        read_queries(tmp_path / "nothing.txt")
