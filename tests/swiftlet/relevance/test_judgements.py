import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from swiftlet.corpora.collections import read_queries
from swiftlet.corpora.trec import read_qrels
from swiftlet.errors import CollectionError, InvalidArgumentError, StorageError
from swiftlet.relevance.agreement import sum_up
from swiftlet.relevance.judgements import (
    Judgement,
    Judgements,
    append_judgements,
    check_judge,
    read_judgements,
)
from swiftlet.relevance.pool import Pair, Pool, PooledDocument, PooledQuery, read_pool, write_pool
from tests.small_disk import small_disk  # noqa: F401 - a fixture

KILLED = """
import os, signal, sys
from pathlib import Path
from swiftlet.relevance.judgements import Judgement, append_judgements
for number in range(50):
    judgement = Judgement(time=0, judge="Ann", query_id="q", document_id=f"d{number}", grade=1)
    append_judgements(Path(sys.argv[1]), [judgement])
with (Path(sys.argv[1]) / "judgements.jsonl").open("ab") as file:
    file.write(b'{"time": 0, "judge": "An')
os.kill(os.getpid(), signal.SIGKILL)
"""


def pair(number: int) -> Pair:
    return "q", f"d{number}"


PAIRS = [pair(number) for number in range(200)]


def judged(number: int, grade: int | None, judge: str = "Ann") -> Judgement:
    query_id, document_id = pair(number)
    return Judgement(time=1.5, judge=judge, query_id=query_id, document_id=document_id, grade=grade)


def read(folder: Path) -> Judgements:
    return read_judgements(folder, PAIRS)


def make_pool(folder: Path, size: int = 200) -> None:
    documents = [PooledDocument(name, "", "", "A passage.", []) for _, name in PAIRS[:size]]
    write_pool(folder, Pool([PooledQuery("q", "a query\t", documents)]))


def test_the_last_grade_counts_and_one_that_was_taken_back_does_not(tmp_path: Path) -> None:
    append_judgements(tmp_path, [judged(0, 0), judged(1, 2), judged(2, 3)])
    append_judgements(tmp_path, [judged(0, 1), judged(1, None), judged(2, None), judged(2, 1)])
    found = read(tmp_path)
    assert found.of("Ann") == {pair(0): 1, pair(2): 1}
    assert found.changed == {"Ann": 1}  # the third one was taken back first
    assert found.of("Bob") == {}


def test_lines_are_only_appended(tmp_path: Path) -> None:
    append_judgements(tmp_path, [judged(0, 0)])
    before = (tmp_path / "judgements.jsonl").read_bytes()
    append_judgements(tmp_path, [judged(0, None)])
    assert (tmp_path / "judgements.jsonl").read_bytes().startswith(before)


def test_two_judges_may_judge_at_the_same_time(tmp_path: Path) -> None:
    names = ["Ann", "Bob"]
    with ThreadPoolExecutor(2) as threads:
        for number in range(50):
            judgements = [[judged(number, number % 4, name)] for name in names]
            [*threads.map(append_judgements, [tmp_path] * 2, judgements)]
    found = read(tmp_path)
    assert found.num_damaged == 0
    assert [len(found.of(name)) for name in names] == [50, 50]


def test_what_was_judged_survives_a_kill_and_later_lines_are_whole(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=False)
    assert ended.returncode == -9
    append_judgements(tmp_path, [judged(100, 3)])
    found = read(tmp_path)
    assert len(found.of("Ann")) == 51
    assert found.of("Ann")[pair(100)] == 3
    assert found.num_damaged == 1


def test_a_full_disk_is_said_and_leaves_what_was_judged(small_disk: Path) -> None:  # noqa: F811
    append_judgements(small_disk, [judged(0, 1)])
    before = (small_disk / "judgements.jsonl").read_bytes()
    with suppress(OSError), (small_disk / "rest").open("wb", buffering=0) as rest:
        while True:
            rest.write(b"x" * 4_096)
    many = [judged(number, 3) for number in range(100)]
    with pytest.raises(StorageError, match=r"judgements.jsonl: No space left on device"):
        append_judgements(small_disk, many)
    assert (small_disk / "judgements.jsonl").read_bytes() == before
    (small_disk / "rest").unlink()
    append_judgements(small_disk, many)
    assert len(read(small_disk).of("Ann")) == 100


def test_a_folder_of_judgements_is_a_collection_for_other_tools(tmp_path: Path) -> None:
    make_pool(tmp_path)
    append_judgements(tmp_path, [judged(0, 0), judged(1, 3), judged(2, 2), judged(2, 1, "Bob")])
    sum_up(tmp_path, read_pool(tmp_path))
    assert [each.text for each in read_queries(tmp_path)] == ["a query\t"]
    qrels = read_qrels(tmp_path / "qrels" / "test.tsv")
    assert qrels == {"q": {"d0": 0, "d1": 3, "d2": 1}}  # the lower one of two
    append_judgements(tmp_path, [judged(1, None)])
    sum_up(tmp_path, read_pool(tmp_path))
    assert read_qrels(tmp_path / "qrels" / "test.tsv") == {"q": {"d0": 0, "d2": 1}}


def test_judgements_of_documents_that_the_pool_lacks_are_left_out_and_counted(
    tmp_path: Path,
) -> None:
    make_pool(tmp_path, size=1)
    append_judgements(tmp_path, [judged(0, 1), judged(1, 3), judged(2, None)])
    verdict = sum_up(tmp_path, read_pool(tmp_path))
    assert verdict.grades == {pair(0): 1}
    assert "1 judgements do not count: the pool lacks their documents" in verdict.notes


def test_damaged_lines_are_counted(tmp_path: Path) -> None:
    append_judgements(tmp_path, [judged(0, 1)])
    with (tmp_path / "judgements.jsonl").open("ab") as file:
        file.write(b'{"grade": 9}\n\xff\n[]\n')
    assert read(tmp_path).num_damaged == 3
    assert len(read(tmp_path).of("Ann")) == 1


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "judgements.jsonl").mkdir()
    with pytest.raises(CollectionError, match="cannot be read: Is a directory"):
        read(tmp_path)
    with pytest.raises(StorageError, match="Is a directory"):
        append_judgements(tmp_path, [judged(0, 1)])


@pytest.mark.parametrize("name", ["", "  ", "x" * 65, "llm:x", "a\x07b"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="a name of 1 to 64 characters"):
        check_judge(name)


def test_blanks_of_a_name_are_one() -> None:
    assert check_judge(" Ann \t Lee ") == "Ann Lee"
