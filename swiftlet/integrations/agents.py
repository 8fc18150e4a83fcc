"""Programs with a language model, and the entries of MCP servers in their configurations.

An entry is a change of the text, so that comments, order and spaces stay. The changed text is read
again: if anything else than the entry has changed, nothing is written.
"""

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from swiftlet import disk
from swiftlet.errors import InvalidArgumentError, RetrievalError
from swiftlet.publication import replace_file

Servers = dict[str, Any]
_ATTEMPTS, _MARK = 3, "\ufeff"


class ConfigurationError(RetrievalError):
    """The configuration of a program cannot be changed; it stays as it is."""


class Member(NamedTuple):
    """A member of a JSON object: its name, where it begins, its value, and its end."""

    name: str
    start: int
    value: int
    end: int


# What is not closed is kept as it is up to the end, so that a later part is no beginning.
_STRING = r'"(?:[^"\\\n]|\\.)*+"?'
_COMMENT = re.compile(rf"//[^\n]*|/\*.*?\*/|({_STRING}|/\*.*)", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])")
_NO_SPACE = re.compile(r"[^ \t\r\n]|$")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class JsonFormat:
    """JSON, with the comments and trailing commas that editors allow."""

    name = "JSON"

    @staticmethod
    def read(text: str) -> Any:
        """The value of a text; that of a blank one is an empty object."""
        bare = _without_comments(text)
        return json.loads(_blank(_TRAILING_COMMA, bare)) if bare.strip() else {}

    @classmethod
    def put(cls, text: str, key: str, name: str, entry: Mapping[str, Any]) -> str:
        """The text with an entry more in the object at `key`."""
        if not _without_comments(text).strip():
            text = f"{text}{{}}\n"
        servers = next((each for each in cls._members(text, 0) if each.name == key), None)
        if servers is None:
            return cls._add(text, 0, key, {name: entry})
        return cls._add(text, servers.value, name, entry)

    @classmethod
    def remove(cls, text: str, key: str, name: str) -> str:
        """The text without an entry of the object at `key`."""
        servers = next(each for each in cls._members(text, 0) if each.name == key)
        return cls._without(text, servers.value, name)

    @classmethod
    def remove_all(cls, text: str, key: str) -> str:
        """The text without the object at `key`."""
        return cls._without(text, 0, key)

    @classmethod
    def _without(cls, text: str, start: int, name: str) -> str:
        """The text without a member of the object that begins at or after `start`."""
        members = [*cls._members(text, start)]
        number = [each.name for each in members].index(name)
        bare, end = _without_comments(text), members[number].end
        start = len(text[: members[number].start].rstrip())
        comma = _after(bare, end)
        if bare[comma] == ",":
            end = comma + 1
        elif number:  # the last one: the comma before it goes, too
            comma = bare.index(",", members[number - 1].end)
            return text[:comma] + text[comma + 1 : start] + text[end:]
        return text[:start] + text[end:]

    @classmethod
    def _add(cls, text: str, start: int, name: str, value: object) -> str:
        """The text with a member more at the end of the object that begins at or after `start`."""
        bare = _without_comments(text)
        start = bare.index("{", start)
        line = "\r\n" if "\r\n" in text else "\n"
        first = next(iter(cls._members(text, 0)), None)
        step = (_indentation(text, first.start) if first else "") or "  "
        members = [*cls._members(text, start)]
        outer = _indentation(text, start)
        inner = (_indentation(text, members[0].start) if members else "") or outer + step
        written = json.dumps(value, indent=step, ensure_ascii=False).replace("\n", line + inner)
        added = f"{line}{inner}{json.dumps(name, ensure_ascii=False)}: {written}"
        if not members:
            closes = _after(text, start + 1)
            rest = f"{line}{outer}{text[closes:]}" if text[closes] == "}" else text[start + 1 :]
            return f"{text[: start + 1]}{added}{rest}"
        # A comment behind the last member stays in its line.
        last = place = members[-1].end
        comma = _after(bare, last)
        has_comma = bare[comma] == ","
        end_of_line = text.find("\n", last)
        if end_of_line >= 0 and not bare[last:end_of_line].replace(",", "").strip():
            place = end_of_line - (text[end_of_line - 1] == "\r")
        elif has_comma:
            place = comma + 1
        if has_comma:
            return f"{text[:place]}{added},{text[place:]}"
        return f"{text[:last]},{text[last:place]}{added}{text[place:]}"

    @staticmethod
    def _members(text: str, start: int) -> Iterator[Member]:
        bare = _blank(_TRAILING_COMMA, _without_comments(text))
        read = json.JSONDecoder().raw_decode
        at = _after(bare, bare.index("{", start) + 1)
        while bare[at] != "}":
            name, end = read(bare, at)
            value = _after(bare, _after(bare, end) + 1)
            end = read(bare, value)[1]
            yield Member(name, at, value, end)
            at = _after(bare, end)
            if bare[at] == ",":
                at = _after(bare, at + 1)


def _after(text: str, place: int) -> int:
    """The place of the next character that is no space."""
    found = _NO_SPACE.search(text, place)
    return found.start() if found else len(text)


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """The text with spaces for what the pattern finds outside of strings; its length stays."""
    return pattern.sub(lambda found: found[1] or " " * len(found[0]), text)


def _without_comments(text: str) -> str:
    return _blank(_COMMENT, text)


def _indentation(text: str, place: int) -> str:
    """The spaces that the line of a place begins with."""
    start = text.rfind("\n", 0, place) + 1
    return text[start : len(text) - len(text[start:].lstrip(" \t"))]


class TomlFormat:
    """TOML, with a table for each entry."""

    name = "TOML"
    read = staticmethod(tomllib.loads)

    @staticmethod
    def put(text: str, key: str, name: str, entry: Mapping[str, Any]) -> str:
        """The text with a table more."""
        rows = [f"[{key}.{_toml_key(name)}]"]
        rows += [f"{_toml_key(each)} = {_toml_value(value)}" for each, value in entry.items()]
        line = "\r\n" if "\r\n" in text else "\n"
        before = f"{text.rstrip()}{line}{line}" if text.strip() else ""
        return before + line.join(rows) + line

    @staticmethod
    def remove(text: str, key: str, name: str) -> str:
        """The text without the table of an entry, and without the tables below it."""
        kept, waiting, is_own = list[str](), list[str](), False
        for line in text.splitlines(keepends=True):
            if line.lstrip().startswith("["):
                is_own = name in _tables(line).get(key, ())
            if is_own and line.strip() and not line.lstrip().startswith("#"):
                waiting = []
            elif is_own:  # comments may belong to the table that follows
                waiting.append(line)
            else:
                kept += [*waiting, line]
                waiting = []
        return "".join([*kept, *waiting]).rstrip() + "\n" if kept or waiting else ""

    @staticmethod
    def remove_all(text: str, _: str) -> str:
        """The text: without its last entry, nothing is left of the tables."""
        return text


def _tables(line: str) -> dict[str, Any]:
    """The tables that a line begins; empty if it belongs to an array."""
    try:
        return tomllib.loads(line)
    except ValueError:
        return {}


def _toml_key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _toml_value(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_toml_key(k)} = {_toml_value(v)}' for k, v in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False)  # texts, numbers and booleans are as in JSON


@dataclass(frozen=True)
class Program:
    """A program with a language model: where its configuration is, and the key of the entries."""

    name: str
    place: Callable[[], Path]
    key: str = "mcpServers"
    format: type[JsonFormat | TomlFormat] = JsonFormat
    extra: Mapping[str, Any] = field(default_factory=dict)
    mark: str = ""
    """What stands beside the configuration of an installed program; by default, its folder."""

    @property
    def is_there(self) -> bool:
        """Whether the program has been used by this user."""
        place = self.place()
        return place.is_file() or (place.parent / self.mark).is_dir()

    def servers(self, text: str) -> tuple[Any, Servers]:
        """What a configuration says, and its entries.

        :raises ConfigurationError: When it cannot be read.
        """
        try:
            found = self.format.read(text)
        except (ValueError, RecursionError) as error:
            raise self._refusal(f"is no valid {self.format.name}: {error}") from error
        servers = found.get(self.key, {}) if isinstance(found, dict) else None
        if not isinstance(servers, dict):
            what = f"{self.key} in it" if isinstance(found, dict) else "its content"
            raise self._refusal(f"cannot take an entry: {what} is no object")
        return found, servers

    def changed(self, text: str, wanted: Mapping[str, Mapping[str, Any] | None]) -> str:
        """The text of a configuration with other entries; None removes one.

        :raises ConfigurationError: When that cannot be done without changing anything else.
        """
        before, servers = self.servers(text)
        expected = deepcopy(before)
        for name, entry in wanted.items():
            try:
                if name in servers:
                    text = self.format.remove(text, self.key, name)
                    del expected[self.key][name]
                if entry is not None:
                    text = self.format.put(text, self.key, name, entry)
                    expected.setdefault(self.key, {})[name] = entry
                elif not expected[self.key]:
                    text = self.format.remove_all(text, self.key)
                after = self.format.read(text)
            except (ValueError, StopIteration, IndexError, AttributeError):
                after = None
            if after is None or {self.key: {}, **after} != {self.key: {}, **expected}:
                raise self._refusal(
                    "is written in a way that no entry can be put into or taken from"
                )
        return text

    def _refusal(self, problem: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self.place()} {problem}; it stays as it is: mend it, or put the entry into "
            f"{self.name} by hand, as docs/mcp.md says"
        )


def _application_folder() -> Path:
    """Where programs with windows keep what belongs to a user."""
    if sys.platform == "win32":
        return _home("APPDATA", "AppData/Roaming")
    if sys.platform == "darwin":
        return Path.home() / "Library/Application Support"
    return _config_folder()


def _config_folder() -> Path:
    return _home("XDG_CONFIG_HOME", ".config")


def _home(variable: str, *below: str) -> Path:
    """The folder that a variable names; without it, one of the user's."""
    return Path(os.environ.get(variable) or Path.home().joinpath(*below))


def _zed() -> Path:
    if sys.platform == "win32":
        return _application_folder() / "Zed/settings.json"
    return _config_folder() / "zed/settings.json"


_STDIO = {"type": "stdio"}
PROGRAMS = (
    Program(
        "Claude Code",
        lambda: _home("CLAUDE_CONFIG_DIR") / ".claude.json",
        extra=_STDIO,
        mark=".claude",
    ),
    Program("Claude Desktop", lambda: _application_folder() / "Claude/claude_desktop_config.json"),
    Program(
        "Codex", lambda: _home("CODEX_HOME", ".codex") / "config.toml", "mcp_servers", TomlFormat
    ),
    Program("Cursor", lambda: Path.home() / ".cursor/mcp.json"),
    Program(
        "VS Code", lambda: _application_folder() / "Code/User/mcp.json", "servers", extra=_STDIO
    ),
    Program("Zed", _zed, "context_servers"),
)
"""The programs whose configurations are known, for Linux, macOS and Windows."""


def command_of(place: str) -> dict[str, Any]:
    """What starts the server of an index or a folder, by this Python, whatever PATH is."""
    return {"command": sys.executable, "args": ["-m", "swiftlet", "mcp", place]}


def place_of(entry: object) -> str | None:
    """The index or folder of an entry, if the entry starts Swiftlet's server."""
    if not isinstance(entry, dict) or not isinstance(arguments := entry.get("args"), list):
        return None
    is_own = Path(str(entry.get("command"))).stem == "swiftlet" or "swiftlet" in arguments
    if not is_own or "mcp" not in arguments[:-1]:
        return None
    return str(arguments[arguments.index("mcp") + 1])


def install(program: Program, place: str, name: str, *, dry: bool = False) -> str:
    """Write the entry of an index or a folder, once; what was done, as the end of a sentence.

    An entry for the same place is brought up to date, and keeps what else it has.

    :param dry: Only say it.
    :raises ConfigurationError: When the configuration is damaged, or another server has the name.
    :raises StorageError: When it cannot be written.
    """
    new = {**program.extra, **command_of(place)}

    def wanted(servers: Servers) -> dict[str, Any]:
        own = [each for each, entry in servers.items() if place_of(entry) == place]
        if not own and name in servers:
            raise ConfigurationError(
                f"{program.place()} has another server of the name {name!r}: give --name"
            )
        found = {each: {**servers[each], **new} for each in own} or {name: new}
        return {each: entry for each, entry in found.items() if servers.get(each) != entry}

    return _write(program, wanted, f"has the entry {name!r} now", dry=dry)


def uninstall(program: Program, place: str | None, *, dry: bool = False) -> str:
    """Remove the entries of an index or a folder, or all that start Swiftlet; what was done.

    :raises ConfigurationError: When the configuration is damaged.
    :raises StorageError: When it cannot be written.
    """

    def wanted(servers: Servers) -> dict[str, Any]:
        found = ((name, place_of(entry)) for name, entry in servers.items())
        return {name: None for name, of in found if of is not None and place in (None, of)}

    return _write(program, wanted, "has no entry of it any more", dry=dry)


def _write(
    program: Program, wanted: Callable[[Servers], dict[str, Any]], done: str, *, dry: bool
) -> str:
    # A link, as people have who keep all their settings in one folder, stays a link.
    place = Path(os.path.realpath(program.place()))
    with disk.storage_errors(place):
        for _ in range(_ATTEMPTS):
            before = place.read_bytes() if place.exists() else None
            text = _decoded(program, before or b"")
            bare = text.removeprefix(_MARK)
            changes = wanted(program.servers(bare)[1])
            if not changes:
                return "needs no change"
            after = text[: len(text) - len(bare)] + program.changed(bare, changes)
            if dry:
                return f"would change: {', '.join(changes)}"
            if before is None:
                replace_file(place, after.encode())
                return done
            is_made = not program.format.read(after.removeprefix(_MARK)) and not any(_copies(place))
            copy = "" if is_made else _keep(place, before, after.encode())
            mode = place.stat().st_mode & 0o7777
            if place.read_bytes() == before:  # else the program has written meanwhile
                if is_made:
                    disk.remove(place)
                    return f"{done}, nor anything else, so it is removed"
                replace_file(place, after.encode(), mode)
                return f"{done} (as it was: {copy})"
    raise ConfigurationError(f"{place} is being changed by {program.name}: close it, and try again")


def _decoded(program: Program, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{program.place()} is no UTF-8 text; it stays as it is: mend it first"
        ) from error


def _copies(place: Path) -> Iterator[Path]:
    """The copies beside a configuration."""
    names = (place.with_name(f"{place.name}.before-swiftlet-{number}") for number in count(1))
    return takewhile(Path.exists, names)


def _keep(place: Path, content: bytes, new: bytes) -> Path:
    """Write a copy beside the configuration, unless a copy has it, or what is `new`; its path."""
    copies = [*_copies(place)]
    for copy in copies:
        if copy.read_bytes() in {content, new}:
            return copy
    copy = place.with_name(f"{place.name}.before-swiftlet-{len(copies) + 1}")
    replace_file(copy, content, place.stat().st_mode & 0o7777)
    return copy


def name_of(place: str) -> str:
    """The name of an entry: that of the index or folder, in letters that all programs take."""
    last = re.sub(r"[^A-Za-z0-9_-]+", "-", place.rstrip("/\\").replace("\\", "/").split("/")[-1])
    return f"swiftlet-{last.strip('-').lower()[:40]}".rstrip("-")


def checked_name(name: str) -> str:
    """A name that all programs take.

    :raises InvalidArgumentError: When it has other characters.
    """
    if not _BARE_KEY.fullmatch(name) or len(name) > 64:
        raise InvalidArgumentError(
            f"--name is {name!r}, but 1 to 64 letters, digits, - and _ are expected"
        )
    return name
