"""A test that is too heavy for the first lane fails, and says how it can stay."""

import os
import subprocess
import sys
from pathlib import Path

from tests.lanes import _scope

TESTS = """
import subprocess, sys, time
import pytest
import tests.lanes

tests.lanes.MOST_SECONDS = 0.2
tests.lanes._slowness = lambda: 1.0
tests.lanes._is_quiet = lambda: True
LOOP = "import time\\nwhile time.process_time() < 0.3: pass"

def test_that_is_cheap(): pass

def test_that_waits(): time.sleep(0.3)

@pytest.fixture
def work():
    subprocess.run([sys.executable, "-c", LOOP])

def test_with_a_heavy_fixture(work): pass

def test_with_a_heavy_process(work):
    subprocess.run([sys.executable, "-c", LOOP])

def test_that_is_heavy():
    exec(f"import time\\nend = time.process_time() + 0.3\\nwhile time.process_time() < end: pass")

@pytest.mark.check
def test_of_the_second_lane():
    test_that_is_heavy()
"""


def test_only_a_heavy_test_of_the_first_lane_fails(tmp_path):
    (tmp_path / "test_heavy.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = check: heavy\n")
    said = run(tmp_path)
    failed = {line.split()[0].split("::")[1] for line in said.splitlines() if " FAILED" in line}
    assert failed == {"test_with_a_heavy_process", "test_that_is_heavy"}, said
    assert "2 failed, 4 passed" in said
    assert "move it to the second lane by `@pytest.mark.check`" in said


def test_a_dear_lane_imports_only_the_files_that_name_it(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = check: heavy\n")
    (tmp_path / "test_cheap.py").write_text("raise ImportError")
    (tmp_path / "test_dear.py").write_text(
        "import pytest\n@pytest.mark.check\ndef test_that_is_dear(): pass\n"
    )
    assert "1 passed" in run(tmp_path, "-m", "check and not soak")
    (tmp_path / "test_cheap.py").write_text("from test_dear import test_that_is_dear\n")
    assert "has its mark from elsewhere: write it in its file" in run(tmp_path)


def test_the_first_lane_imports_no_file_that_is_wholly_dear(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = check: heavy\n")
    (tmp_path / "test_cheap.py").write_text("def test_that_is_cheap(): pass\n")
    (tmp_path / "test_dear.py").write_text(
        "import pytest\npytestmark = pytest.mark.check\nraise ImportError\n"
    )
    assert "1 passed" in run(tmp_path, "-m", "not soak and not check")
    assert "ImportError" in run(tmp_path)


def run(folder: Path, *options: str) -> str:
    """All that pytest says of the tests in a folder."""
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "tests.lanes", "--rootdir", folder, *options,
         folder],
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ended.stdout + ended.stderr


def test_a_folder_stays_together_in_the_first_lane_and_where_its_tests_share_servers():
    page = "tests/service/test_page.py"
    assert _scope(f"{page}::test_a[b/c]", is_first_lane=True) == "tests/service"
    assert _scope(f"{page}::test_a[b/c]", is_first_lane=False) == page
    servers = "tests/swiftlet/servers"
    assert _scope(f"{servers}/test_cuts.py::test_a", is_first_lane=False) == servers
