"""`swiftlet up`: a folder that searches itself."""

import os
import subprocess
import sys
from urllib.request import urlopen

import psutil
import pytest

from swiftlet.cli.up import FOLLOWS, _alone, _serve_tools
from swiftlet.errors import InvalidArgumentError
from tests.folder_up import answer, first_of, up
from tests.polling import wait_until

pytestmark = pytest.mark.check


def test_a_folder_is_searched_at_once_refined_and_followed(tmp_path):
    folder, cache = tmp_path / "folder", tmp_path / "cache"
    folder.mkdir()
    (folder / "tea.md").write_text("# Tea\n\nLeaves are steeped in hot water.")
    (folder / "ski.md").write_text("# Skiing\n\nOne slides down snowy slopes.")
    (folder / "ski.zzz").touch()  # is noted once
    (folder / ".git").mkdir()
    for number in range(300):  # of many files, another process reads some
        (folder / ".git" / f"{number}").touch()
    with up(folder, cache) as (process, address):
        refining = answer(f"{address}/info")["refining"]
        assert refining is None or refining["of"] >= 2  # also before the first is encoded
        assert first_of(address, "winter+sport") == "ski.md"
        with urlopen(f"{address}/files/ski.md") as original:
            assert original.read() == (folder / "ski.md").read_bytes()
        (folder / "tax.md").write_text("# Taxes\n\nCitizens pay a part of their income.")
        wait_until(lambda: first_of(address, "income") == "tax.md")
        wait_until(lambda: answer(f"{address}/info")["refining"] is None)
        for child in psutil.Process(process.pid).children():
            if child.nice() == FOLLOWS:
                child.kill()  # as the system does when it has no memory left
        (folder / "bees.md").write_text("# Bees\n\nThey gather nectar for honey.")
        wait_until(lambda: first_of(address, "honey") == "bees.md")
        second = subprocess.run(
            [sys.executable, "-m", "swiftlet", "up", folder, "--port", "0"],
            env={**os.environ, "XDG_CACHE_HOME": str(cache)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert second.returncode == 2
        sentence = " ".join(second.stderr.split())
        assert f"is searched already, at {address}: open that, or stop it first" in sentence
        process.kill()  # the process that follows the folder ends, too
    (folder / "tax.md").unlink()
    (folder / "bees.md").unlink()
    with up(folder, cache) as (_, address):
        assert answer(f"{address}/info")["refining"] is None
        wait_until(lambda: answer(f"{address}/info")["index"]["num_documents"] == 2)
    assert {path.name for path in folder.iterdir()} == {".git", "tea.md", "ski.md", "ski.zzz"}


def test_a_function_that_is_named_encodes_queries_and_what_is_followed(tmp_path, monkeypatch):
    (tmp_path / "counting.py").write_text(
        "def encode(texts):\n    return [[text.count('x'), text.count('y'), 1] for text in texts]\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    folder, cache = tmp_path / "folder", tmp_path / "cache"
    folder.mkdir()
    (folder / "x.txt").write_text("xxxxx")
    for name in ("y", "z"):  # the second time, the index is there
        options = ["--encoder", "counting:encode"]
        with up(folder, cache, options=options) as (_, address):
            (folder / f"{name}.txt").write_text("y" * 5 + name)
            wait_until(lambda new=f"{name}.txt": first_of(address, "yyy&mode=dense") == new)
            (folder / f"{name}.txt").unlink()


def test_after_the_last_port_there_are_no_tools_and_a_sentence_says_so(small_index, capsys):
    _serve_tools(small_index, None, "127.0.0.1", 65_536)
    said = " ".join(capsys.readouterr().err.split())
    assert said.endswith(
        "no tools over HTTP: cannot listen on 127.0.0.1 port 65536: 65535 is the last port"
    )


def test_before_the_first_answer_a_second_process_is_told_to_wait_for_the_address(tmp_path):
    place, address = tmp_path / "place", tmp_path / "place" / "address"
    place.mkdir()
    address.write_text("http://of.one.that.was.killed")
    with _alone(place, tmp_path):
        wait = "is being indexed by another process: wait until that prints its address"
        with pytest.raises(InvalidArgumentError, match=wait), _alone(place, tmp_path):
            pass
        address.write_text("http://new")
        with pytest.raises(InvalidArgumentError, match="at http://new: "), _alone(place, tmp_path):
            pass


def test_an_empty_folder_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "picture.png").write_bytes(b"PNG")
    result = subprocess.run(
        [sys.executable, "-m", "swiftlet", "up", tmp_path, "--port", "0"],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / ".cache")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 2
    sentence = f"{tmp_path} has no file that can be read: put one into it first"
    assert sentence in " ".join(result.stderr.split())
