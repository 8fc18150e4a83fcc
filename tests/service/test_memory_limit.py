import logging
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from service.admission.memory_limit import (
    MEBIBYTE,
    check_memory_limit,
    memory_limit,
    most_processes,
    needed_memory,
)
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER
from swiftlet.errors import InvalidArgumentError
from swiftlet.processors.low_priority import LowPriorityProcess


@pytest.mark.parametrize(
    ("file", "content", "limit"),
    [
        ("memory.max", "134217728\n", 128 * MEBIBYTE),
        ("memory.max", "max\n", None),
        ("memory/memory.limit_in_bytes", "134217728\n", 128 * MEBIBYTE),
        ("memory/memory.limit_in_bytes", "9223372036854771712\n", None),
        ("cpu.max", "max 100000\n", None),
    ],
)
def test_the_limit_is_that_of_either_version_of_cgroups(tmp_path, file, content, limit):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(content)
    assert memory_limit(tmp_path) == limit


needed = partial(needed_memory, encoder=DEFAULT_QUERY_ENCODER, cache_bytes=0)


def check(index: Path, *, limit_bytes: int | None, threads: int = 1, **service: Any) -> None:
    check_memory_limit(needed(index, threads=threads, **service), limit_bytes)


def test_a_limit_without_room_for_the_service_is_refused_with_both_figures(small_index):
    with pytest.raises(
        InvalidArgumentError,
        match=r"the memory limit is 64 MiB; at least 1\d\d MiB is expected to serve",
    ):
        check(small_index, limit_bytes=64 * MEBIBYTE)


def test_threads_and_the_cache_need_memory_too_if_there_is_a_limit(small_index):
    check(small_index, limit_bytes=160 * MEBIBYTE)
    with pytest.raises(InvalidArgumentError):
        check(small_index, limit_bytes=160 * MEBIBYTE, threads=16)
    with pytest.raises(InvalidArgumentError):
        check(small_index, limit_bytes=160 * MEBIBYTE, cache_bytes=100 * MEBIBYTE)
    check(small_index, limit_bytes=None, threads=1000)


def test_a_limit_without_room_for_the_files_of_the_index_is_a_warning(
    small_index, tmp_path, caplog
):
    with caplog.at_level(logging.WARNING):
        check(small_index, limit_bytes=200 * MEBIBYTE)
        assert not caplog.messages
        with (tmp_path / "index.faiss").open("wb") as file:
            file.truncate(1024 * MEBIBYTE)
        check(tmp_path, limit_bytes=200 * MEBIBYTE)
    assert "searches will read from the disk" in caplog.text


def test_a_limit_without_room_for_a_reload_is_a_warning(small_index, caplog):
    with caplog.at_level(logging.WARNING):
        check(small_index, limit_bytes=140 * MEBIBYTE)
    (warning,) = caplog.messages
    said = re.fullmatch(
        r"the memory limit of 140 MiB is less than the (\d+) MiB that a reload needs: "
        r"one may end the process",
        warning,
    )
    assert said
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        check(small_index, limit_bytes=int(said[1]) * MEBIBYTE)
    assert not caplog.messages


def test_the_process_that_encodes_written_documents_counts_in_the_warnings(small_index, caplog):
    with caplog.at_level(logging.WARNING):
        check(small_index, limit_bytes=200 * MEBIBYTE)
        assert not caplog.messages
        check(small_index, limit_bytes=200 * MEBIBYTE, document_encoder=DEFAULT_ENCODER)
    assert "than the 2" in caplog.messages[0]
    assert "that a reload needs" in caplog.messages[1]


def test_there_are_as_many_processes_as_threads_or_as_the_limit_has_room_for(small_index, caplog):
    on = partial(needed, small_index)
    assert most_processes(8, on, None) == 8
    found = [most_processes(8, on, limit * MEBIBYTE) for limit in range(0, 2_000, 50)]
    assert {1, 2, 8} < {*found}
    assert found == sorted(found)
    with caplog.at_level(logging.WARNING):
        for number, limit in zip(found, range(0, 2_000, 50), strict=True):
            if number > 1:
                check(small_index, limit_bytes=limit * MEBIBYTE, processes=number)
    assert not caplog.messages


def test_the_kernel_ends_processes_of_low_priority_first():
    process = LowPriorityProcess("reader")
    try:
        adjustment = process.call(Path.read_text, Path("/proc/self/oom_score_adj"))
    finally:
        process.close()
    assert int(adjustment) == 1000
