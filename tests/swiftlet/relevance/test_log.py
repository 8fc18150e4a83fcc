import os
from pathlib import Path

import pytest

from swiftlet.errors import CollectionError, StorageError
from swiftlet.relevance.log import Click, Log, LoggedSearch, LogWriter, log_files
from training.distillation.texts import read_query_texts

MEGABYTE = 2**20


def searched(query: str, at: float = 0.0, **fields: object) -> LoggedSearch:
    values = {"id": query, "session": "s", "mode": "dense", "index": "1", "hits": [("a", 0.5)]}
    return LoggedSearch(time=at, query=query, **{**values, **fields})


def writer(folder: Path, most_bytes: int = MEGABYTE, days: int = 30) -> LogWriter:
    return LogWriter(folder, most_bytes=most_bytes, days=days)


def test_what_was_written_is_read_by_time_also_of_several_processes(tmp_path: Path) -> None:
    first, second = writer(tmp_path / "log"), writer(tmp_path / "log")
    entries = [
        searched("one", 1, filter=["kind"], milliseconds={"encode": 0.5}),
        searched("two", 2),
    ]
    clicks = [Click(time=3, id="one", document_id="a")]
    second.append([entries[1]])
    first.append([entries[0], *clicks])
    first.close()
    second.close()
    log = Log(tmp_path / "log")
    assert [*log.searches()] == entries
    assert [*log.clicks()] == clicks
    assert log.num_damaged == 0


def test_only_its_owner_can_read_a_log(tmp_path: Path) -> None:
    writer(tmp_path).append([searched("one")])
    assert {path.stat().st_mode & 0o777 for path in log_files(tmp_path)} == {0o600}


def test_the_oldest_files_go_when_the_bound_of_bytes_is_reached(tmp_path: Path) -> None:
    log = writer(tmp_path, most_bytes=64_000)
    for number in range(1_000):
        log.append([searched(f"query {number}", number)])
        assert sum(path.stat().st_size for path in log_files(tmp_path)) <= 64_000
    log.close()
    left = [each.query for each in Log(tmp_path).searches()]
    assert left == [f"query {number}" for number in range(1_000 - len(left), 1_000)]
    assert len(left) > 200


def test_files_over_the_bound_of_days_go(tmp_path: Path) -> None:
    earlier = writer(tmp_path)
    earlier.append([searched("old")])
    earlier.close()
    (old,) = log_files(tmp_path)
    os.utime(old, (0, 0))
    writer(tmp_path, days=1).append([searched("new")])
    assert [each.query for each in Log(tmp_path).searches()] == ["new"]


def test_other_files_of_the_folder_stay(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x" * 100_000)
    log = writer(tmp_path, most_bytes=32_000)
    for number in range(400):
        log.append([searched(f"query {number}")])
    assert (tmp_path / "notes.txt").stat().st_size == 100_000


def test_damaged_lines_are_left_out_and_counted(tmp_path: Path) -> None:
    log = writer(tmp_path)
    log.append([searched("one")])
    log.close()
    (path,) = log_files(tmp_path)
    path.write_bytes(path.read_bytes() + b'{"time": 1, "qu\n\xff\n[]\n')
    read = Log(tmp_path)
    assert [each.query for each in read.searches()] == ["one"]
    assert read.num_damaged == 3


def test_a_file_of_searches_is_a_query_log_for_training(tmp_path: Path) -> None:
    log = writer(tmp_path)
    log.append([searched("one"), searched("two"), Click(time=0, id="one", document_id="a")])
    log.close()
    (path,) = log_files(tmp_path, "searches")
    assert [*read_query_texts(path)] == ["one", "two"]


@pytest.mark.parametrize("place", ["missing", "empty"])
def test_a_folder_without_a_log_is_refused_in_one_sentence(tmp_path: Path, place: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CollectionError, match="the folder of SWIFTLET_QUERY_LOG is expected"):
        Log(tmp_path / place)


def test_a_place_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        writer(tmp_path / "file" / "log")
