"""Rules by which files are left out, beside Git's own answers."""

import os
import random
import subprocess
from pathlib import Path

import pytest

from swiftlet.sync.folder import Folder
from swiftlet.sync.rules import rules_of, verdict

ENVIRONMENT = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
PARTS = (
    "*", "**", "/", "a", "b", "?", "foo", ".md", "[ab]", "[!a]", "[^b-z]", "[[:upper:]]",
    "[[:no:]]", "[]x]", "[z-a]", "[a-]", "[a", "\\a", "\\", " ", "!", "-", "/**/", "**/", "é",
)  # fmt: skip


def git(folder: Path, *arguments: str) -> bytes:
    command = ["git", "-c", "init.defaultBranch=main", *arguments]
    return subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, check=True, capture_output=True
    ).stdout


def answers(folder: Path, files: list[str], rules: dict[str, str]) -> tuple[set[str], set[str]]:
    """The files that Git and that Swiftlet see; `rules` are by the folder that they are in."""
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("text")
    git(folder, "init", "--quiet")
    for at, text in rules.items():
        (folder / at / ".gitignore").write_text(text)
    listed = git(folder, "ls-files", "-z", "--others", "--exclude-standard").decode().split("\0")
    return {name for name in listed if name.endswith(".md")}, {*Folder(folder).look().files}


@pytest.mark.parametrize(
    ("rules", "files", "expected"),
    [
        ({"": "*\n!*/\n!*.md"}, ["keep/x/y/r.md", "keep/x/b.txt"], {"keep/x/y/r.md"}),
        ({"": "foo/**\n!foo/bar/\n!foo/bar/a.md"}, ["foo/b.md", "foo/bar/a.md"], {"foo/bar/a.md"}),
        ({"": "*s.md", "a": "!/keep/"}, ["a/keep/s.md", "a/keep/t.md"], {"a/keep/t.md"}),
        ({"": "\ufeffa.md\r\nb.md \n\\ c.md"}, ["a.md", "b.md", " c.md", "d.md"], {"d.md"}),
        ({"": "[[:upper:]]*.md"}, ["A.md", "a.md", "[.md"], {"a.md", "[.md"}),
        ({"": "[z-b].md\n!\n[a.md\na.md\\\n*\x0bb.md"}, ["a.md", "b.md", "z.md"], {"a.md", "b.md"}),
    ],
)
def test_a_rule_says_what_git_says(tmp_path, rules, files, expected):
    assert answers(tmp_path, files, rules) == (expected, expected)


@pytest.mark.filterwarnings("error")
def test_random_rules_say_what_git_says(tmp_path):
    numbers, num_left_out = random.Random(0), 0
    for number in range(40):
        files = [
            "/".join([*numbers.choices(["a", "b", "foo", "ab"], k=numbers.randrange(3)), name])
            for name in ("a.md", "b.md", "ab.md", "Ab.md", "x]y.md", "a b.md", "é.md", "foo.md")
        ]
        lines = ["".join(numbers.choices(PARTS, k=numbers.randint(1, 5))) for _ in range(12)]
        rules = {"": "\n".join(lines[:6]), files[0].rpartition("/")[0]: "\n".join(lines[6:])}
        (folder := tmp_path / f"{number}").mkdir()
        ours, theirs = answers(folder, files, rules)
        assert ours == theirs, rules
        num_left_out += len(files) - len(ours)
    assert 40 < num_left_out < 280


def test_a_rule_of_many_stars_takes_no_time(tmp_path):  # Git itself does not end
    lines = "*a" * 40 + "*c.md\n" + "**/a*/" * 20 + "c.md\n" + "*a" * 40 + "*b.md"
    (tmp_path / ".gitignore").write_text(lines)
    rules = rules_of(tmp_path / ".gitignore")
    for path, expected in (("a" * 200 + "b.md", True), ("/".join(["a" * 20] * 30) + "/d.md", None)):
        assert verdict(rules, path.encode(), is_folder=False) is expected


def test_a_pipe_and_a_link_with_the_name_of_a_rule_file_have_no_rules(tmp_path):
    files = ["a.md", "b/a.md", "c/a.md"]
    (tmp_path / "rules").write_text("*")
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    os.mkfifo(tmp_path / ".gitignore")
    (tmp_path / "b" / ".gitignore").mkdir()
    (tmp_path / "c" / ".gitignore").symlink_to(tmp_path / "rules")
    assert {*Folder(tmp_path).look().files} == {*files}
