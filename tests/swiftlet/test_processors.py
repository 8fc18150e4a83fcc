import os
from pathlib import Path

import pytest

from swiftlet.processors import available_processors

HERE = len(os.sched_getaffinity(0))


def control_group(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    return folder


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "100000 100000\n"}, 1),
        ({"cpu.max": "110000 100000\n"}, 2),
        ({"cpu.max": "6400000 100000\n"}, 64),
        ({"cpu.max": "nonsense\n"}, None),
        ({"cpu.max": "1 0\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "150000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2),
        ({"cpu/cpu.cfs_quota_us": "100000\n"}, None),
    ],
)
def test_a_container_has_the_cores_of_its_quota_but_no_more_than_it_may_run_on(
    tmp_path, files, quota
):
    expected = HERE if quota is None else min(quota, HERE)
    assert available_processors(control_group(tmp_path, files)) == expected


def test_a_process_bound_to_one_core_has_one(tmp_path):
    cores = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(cores)})
        assert available_processors(tmp_path) == 1
    finally:
        os.sched_setaffinity(0, cores)
