"""Entries in the configurations of programs with a language model."""

import json
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftlet.integrations.agents import (
    PROGRAMS,
    ConfigurationError,
    JsonFormat,
    TomlFormat,
    command_of,
    place_of,
)
from tests.command_line import refusal, swiftlet

CLAUDE, DESKTOP, CODEX, CURSOR, CODE, ZED = PROGRAMS
ZED_SETTINGS = """// Zed settings
{
  "theme": "One Dark", // the best
  /* servers */
  "context_servers": {
    "other": {"command": "x", "args": ["a // no comment"],}, // mine
  },
  "tab_size": 4
}
"""
CODEX_SETTINGS = """model = "gpt"  # the model

[mcp_servers.other]
command = "x"
args = [
  "a",
]

# about projects
[projects."/home/me"]
trust_level = "trusted"
"""


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", f"{home}")
    monkeypatch.setattr(sys, "platform", "linux")
    return home


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "My notes"
    folder.mkdir()
    return folder


def use_all(home: Path) -> None:
    for program in PROGRAMS:
        program.place().parent.mkdir(parents=True, exist_ok=True)
    (home / ".claude").mkdir()


def entries() -> list[str]:
    found = []
    for program in PROGRAMS:
        if program.place().is_file():
            servers = program.servers(program.place().read_text())[1]
            found += [name for name, entry in servers.items() if place_of(entry)]
    return found


def test_every_program_that_is_there_gets_the_entry_once(home, folder):
    use_all(home)
    result = swiftlet("install", folder)
    assert result.exit_code == 0, result.output
    assert entries() == ["swiftlet-my-notes"] * 6
    servers = json.loads((home / ".config/Code/User/mcp.json").read_text())["servers"]
    assert servers["swiftlet-my-notes"] == {
        "type": "stdio",
        "command": sys.executable,
        "args": ["-m", "swiftlet", "mcp", f"{folder}"],
    }
    before = {program.place(): program.place().read_bytes() for program in PROGRAMS}
    again = swiftlet("install", folder)
    assert again.output.count("needs no change") == 6
    assert before == {place: place.read_bytes() for place in before}
    assert swiftlet("install", "--uninstall").exit_code == 0
    assert not any(program.place().exists() for program in PROGRAMS)


def test_a_program_that_is_not_there_gets_nothing(home, folder):
    result = swiftlet("install", folder)
    assert result.exit_code == 0
    assert '"mcpServers": {"swiftlet-my-notes"' in result.stderr
    assert [*home.iterdir()] == []
    (home / ".codex").mkdir()
    swiftlet("install", folder)
    assert [path.name for path in home.iterdir()] == [".codex"]
    assert entries() == ["swiftlet-my-notes"]


@pytest.mark.parametrize(
    ("program", "settings"), [(ZED, ZED_SETTINGS), (CODEX, CODEX_SETTINGS)], ids=["json", "toml"]
)
def test_comments_order_mode_and_links_stay(program, settings, home, folder, tmp_path):
    place = program.place()
    place.parent.mkdir(parents=True)
    kept = tmp_path / "kept-settings"
    kept.write_text(settings)
    kept.chmod(0o600)
    place.symlink_to(kept)
    assert swiftlet("install", folder).exit_code == 0
    changed = kept.read_text()
    assert place.is_symlink()
    assert kept.stat().st_mode & 0o777 == 0o600
    lines = iter(changed.splitlines())
    assert all(line in lines for line in settings.splitlines() if line.strip()), changed
    copy = kept.with_name("kept-settings.before-swiftlet-1")
    assert (copy.read_text(), copy.stat().st_mode & 0o777) == (settings, 0o600)
    assert swiftlet("install", folder, "--uninstall").exit_code == 0
    assert kept.read_text() == settings
    assert [*tmp_path.glob("kept-settings.*")] == [copy]


def test_an_entry_that_is_removed_leaves_the_other_settings_as_they_were(home, folder):
    CURSOR.place().parent.mkdir()
    for settings in ("{}\n", '{"a": 1}', '{\n  "a": [], // b\n  "c": 2\n}\n'):
        CURSOR.place().write_text(settings)
        assert swiftlet("install", folder).exit_code == 0
        assert entries() == ["swiftlet-my-notes"]
        assert swiftlet("install", "--uninstall").exit_code == 0
        assert JsonFormat.read(CURSOR.place().read_text()) == JsonFormat.read(settings)


@pytest.mark.parametrize(
    ("program", "settings", "complaint"),
    [
        (CURSOR, '{"mcpServers": {', "is no valid JSON"),
        (CURSOR, '{"mcpServers": []}', "mcpServers in it is no object"),
        (CURSOR, "[]", "its content is no object"),
        (CURSOR, "\xff", "is no UTF-8 text"),
        (CODEX, "model = ", "is no valid TOML"),
        (CODEX, "mcp_servers = {}", "that no entry can be put into"),
    ],
)
def test_a_damaged_configuration_is_named_and_left_and_the_rest_is_written(
    program, settings, complaint, home, folder
):
    use_all(home)
    program.place().write_text(settings, "latin-1")
    sentence = refusal(swiftlet("install", folder))
    assert f"{program.place()}" in sentence
    assert complaint in sentence
    assert program.place().read_text("latin-1") == settings
    program.place().unlink()
    assert len(entries()) == 5


def test_an_entry_of_the_same_place_is_brought_up_to_date(home, folder):
    old = {"command": "/old/bin/swiftlet", "args": ["mcp", f"{folder}"], "env": {"A": "b"}}
    (home / ".cursor").mkdir()
    CURSOR.place().write_text(json.dumps({"mcpServers": {"mine": old, "last": {}}}))
    assert swiftlet("install", folder).exit_code == 0
    servers = json.loads(CURSOR.place().read_text())["mcpServers"]
    assert servers["mine"] == {**command_of(f"{folder}"), "env": {"A": "b"}}
    assert {*servers} == {"mine", "last"}


def test_a_name_of_another_server_is_not_taken(home, folder, tmp_path):
    other = tmp_path / "other" / folder.name
    other.mkdir(parents=True)
    (home / ".cursor").mkdir()
    assert swiftlet("install", other).exit_code == 0
    assert "give --name" in refusal(swiftlet("install", folder))
    assert "letters, digits" in refusal(swiftlet("install", folder, "--name", "a b"))
    assert swiftlet("install", folder, "--name", "notes").exit_code == 0
    assert entries() == ["swiftlet-my-notes", "notes"]
    swiftlet("install", folder, "--uninstall")
    assert entries() == ["swiftlet-my-notes"]


def test_a_dry_run_changes_nothing(home, folder):
    use_all(home)
    assert swiftlet("install", folder, "--dry-run").output.count("would change") == 6
    assert entries() == []


def test_a_place_that_is_not_there_is_refused(home, tmp_path):
    for place in (tmp_path / "absent", ""):
        assert "is no index and no folder" in refusal(swiftlet("install", place))


@pytest.mark.parametrize("command", ["install", "up", "mcp"])
def test_a_whole_home_folder_is_not_searched_by_accident(command, home, monkeypatch):
    monkeypatch.chdir(home)
    for place in (".", home.parent, "/"):
        assert "has your whole home folder: name a folder in it" in refusal(
            swiftlet(command, place)
        )
    assert [*home.iterdir()] == []


@pytest.mark.parametrize(
    ("system", "app", "zed"),
    [
        ("darwin", "Library/Application Support", ".config/zed"),
        ("win32", "AppData/Roaming", "AppData/Roaming/Zed"),
    ],
)
def test_each_system_has_its_own_places(system, app, zed, home, monkeypatch):
    monkeypatch.setattr(sys, "platform", system)
    assert DESKTOP.place() == home / app / "Claude/claude_desktop_config.json"
    assert CODE.place() == home / app / "Code/User/mcp.json"
    assert ZED.place() == home / zed / "settings.json"
    assert CLAUDE.place() == home / ".claude.json"


names = st.text("abc-_ .\"'\\é", min_size=1, max_size=6)
values = st.recursive(
    st.one_of(st.booleans(), st.integers(-9, 9), st.text('/*,}{]"\\# é\n', max_size=8)),
    lambda each: st.one_of(st.lists(each, max_size=3), st.dictionaries(names, each, max_size=3)),
    max_leaves=8,
)
ENTRY = command_of('/a "b" \\ c // é')


@given(st.dictionaries(names, values, max_size=4), st.dictionaries(names, values, max_size=3),
       st.sampled_from([None, 2, "\t"]), names)  # fmt: skip
def test_an_entry_that_is_put_into_any_json_and_removed_leaves_it_as_it_was(
    others, servers, indent, name
):
    content = {"mcpServers": servers, **others}
    text = json.dumps(content, indent=indent)
    servers = content["mcpServers"]
    if not isinstance(servers, dict) or name in servers:
        return
    changed = CURSOR.changed(text, {name: ENTRY})
    assert JsonFormat.read(changed) == {**content, "mcpServers": {**servers, name: ENTRY}}
    removed = JsonFormat.read(CURSOR.changed(changed, {name: None}))
    assert {"mcpServers": {}, **removed} == content


@given(st.text("[]{}=\"'#.\n abmcp_servers", max_size=60), names)
def test_any_toml_gets_the_entry_alone_or_is_refused(text, name):
    try:
        before = tomllib.loads(text)
        changed = CODEX.changed(text, {name: ENTRY})
    except (tomllib.TOMLDecodeError, ConfigurationError):
        return
    after = TomlFormat.read(changed)
    assert after["mcp_servers"].pop(name) == ENTRY
    assert after == {"mcp_servers": {}, **before}
