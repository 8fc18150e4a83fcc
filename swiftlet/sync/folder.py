"""Which files of a folder are followed: visible ones that can be read and no rule ignores.

Rules are those of Git, in `.gitignore` and `.swiftletignore` of each folder.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path, PurePath
from typing import NamedTuple

from swiftlet.corpora.collections import unread_sentence
from swiftlet.corpora.files.kinds import can_read
from swiftlet.errors import InvalidArgumentError, RetrievalError
from swiftlet.index.documents.store import DOCUMENTS_FILE
from swiftlet.sync.rules import Rule, rules_of, verdict

RULE_FILES = (".gitignore", ".swiftletignore")
"""The rules of the later file, in any folder, go before those of the earlier one."""


def check_is_chosen(folder: Path) -> None:
    """Refuse a folder that has all files of a user, which is named by accident.

    :raises InvalidArgumentError: When it is the home folder, or has it in it.
    """
    home = os.path.expanduser("~")  # noqa: PTH111 - the other one fails where there is none
    if Path(os.path.realpath(home)).is_relative_to(folder):
        raise InvalidArgumentError(
            f"{folder} has your whole home folder: name a folder in it, or follow all of it by "
            f"swiftlet sync INDEX {folder}"
        )


class FolderGoneError(RetrievalError):
    """A folder that is followed is not there now."""


class Stamp(NamedTuple):
    """What tells that a file has not changed since it was read."""

    size_bytes: int
    modified_ns: int
    changed_ns: int
    inode: int


@dataclass(slots=True)
class Look:
    """What a look at a folder has found: files by their paths below it, with slashes.

    `unread` counts files of no kind that is read by their suffix, or by their name without one.
    `unknown` are folders that cannot be read. `has_links` tells that a file has several names, of
    which one is taken.
    """

    files: dict[str, Stamp] = field(default_factory=dict)
    unread: Counter[str] = field(default_factory=Counter)
    unknown: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    has_links: bool = False

    @property
    def sentences(self) -> list[str]:
        """What is to be said of the look: its problems, and which kinds of files are not read."""
        return [*self.problems, *filter(None, [printable(unread_sentence(self.unread))])]

    def note(self, problem: str) -> None:
        """Keep a sentence."""
        self.problems.append(printable(problem))


class _Rules(NamedTuple):
    """The rules of a file in a folder, for paths below it: `start` is the bytes of its own path."""

    order: int
    start: int
    own: list[Rule]


def _suffix(name: str) -> str:
    return PurePath(name).suffix.lower()


def is_read(name: str) -> bool:
    """Whether files with the suffix of this name can be read here."""
    return can_read(_suffix(name))


class Folder:
    """A folder that is followed. Links are not: a file in it is read once, by its own path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def stamp(self, name: str) -> Stamp | None:
        """The stamp of a file; None if there is none."""
        try:
            return _stamp(os.lstat(f"{self.path}/{name}"))
        except OSError:
            return None

    def look(self, names: Iterable[str] = ("",)) -> Look:
        """Find the files that have one of these paths or are below it; the empty path is all.

        :raises FolderGoneError: When the folder is not there.
        """
        if not self.path.is_dir():
            raise FolderGoneError(f"{self.path} is no folder now: nothing is deleted")
        look, seen = Look(), dict[tuple[int, int], str]()
        wanted = dict[str, set[str]]()
        for name in names:
            if not name:
                self._walk("", (), look, seen)
                return look
            parent, _, last = name.rpartition("/")
            wanted.setdefault(parent, set()).add(last)
        for parent, entries in wanted.items():
            self._enter(parent, entries, look, seen)
        return look

    def _enter(
        self, parent: str, wanted: set[str], look: Look, seen: dict[tuple[int, int], str]
    ) -> None:
        """Walk down to a folder by the rules on the way, and take these entries of it."""
        at, rules = "", tuple[_Rules, ...]()
        for each in parent.split("/") if parent else ():
            rules = self._with_rules_in(at, rules)
            at = f"{at}/{each}" if at else each
            if self.path.joinpath(at, DOCUMENTS_FILE).exists():
                return
            if self.path.joinpath(at).is_symlink() or _is_left_out(at, rules, is_folder=True):
                return
        rules = self._with_rules_in(at, rules)
        try:
            with os.scandir(self.path / at) as entries:
                found = [entry for entry in entries if entry.name in wanted]
        except OSError:  # it has gone
            return
        for below, own in [*self._taken(found, at, rules, look, seen)]:
            self._walk(below, own, look, seen)

    def _walk(
        self, at: str, rules: tuple[_Rules, ...], look: Look, seen: dict[tuple[int, int], str]
    ) -> None:
        pending = [(at, rules)]
        while pending:
            at, rules = pending.pop()
            try:
                with os.scandir(self.path / at) as found:
                    entries = sorted(found, key=lambda entry: entry.name)
            except OSError as error:
                if at and isinstance(error, FileNotFoundError):  # it has just gone
                    continue
                look.unknown.append(at)
                look.note(f"{self.path / at} cannot be read: {error.strerror}")
                continue
            names = {entry.name for entry in entries}
            if DOCUMENTS_FILE in names:  # an index, perhaps the one that follows this folder
                continue
            if names.intersection(RULE_FILES):
                rules = self._with_rules_in(at, rules)
            pending += reversed([*self._taken(entries, at, rules, look, seen)])

    def _taken(
        self,
        entries: Iterable["os.DirEntry[str]"],
        at: str,
        rules: tuple[_Rules, ...],
        look: Look,
        seen: dict[tuple[int, int], str],
    ) -> Iterator[tuple[str, tuple[_Rules, ...]]]:
        """Take the files of a folder, and give its folders."""
        for entry in entries:
            name = f"{at}/{entry.name}" if at else entry.name
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
                if _is_left_out(name, rules, is_folder=is_folder):
                    continue
                if is_folder:
                    yield name, rules
                elif entry.is_symlink():
                    self._note_link(name, look)
                elif not is_read(name):
                    look.unread[_suffix(name) or entry.name] += 1
                elif not entry.is_file(follow_symlinks=False):  # reading a pipe may never end
                    look.note(f"{self.path / name} is no regular file")
                else:
                    status = entry.stat(follow_symlinks=False)
                    if status.st_nlink > 1:
                        look.has_links = True
                        if seen.setdefault((status.st_dev, status.st_ino), name) != name:
                            continue  # another name of the same file
                    look.files[name] = _stamp(status)
            except FileNotFoundError:  # it has just gone
                continue
            except OSError as error:
                look.unknown.append(name)
                look.note(f"{self.path / name} cannot be read: {error.strerror}")

    def _note_link(self, name: str, look: Look) -> None:
        path = self.path / name
        target = Path(os.path.realpath(path))
        if is_read(name) and not target.is_relative_to(os.path.realpath(self.path)):
            look.note(f"{path}: it is a link to a place outside the folder")

    def _with_rules_in(self, at: str, rules: tuple[_Rules, ...]) -> tuple[_Rules, ...]:
        """Rules, and those in a folder below; the last that name a path decide."""
        start = len(os.fsencode(at)) + 1 if at else 0
        found = [rules_of(self.path / at / each) for each in RULE_FILES]
        own = [_Rules(order, start, each) for order, each in enumerate(found) if each]
        return (*sorted([*rules, *own], key=itemgetter(0)),) if own else rules


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _is_left_out(name: str, rules: tuple[_Rules, ...], *, is_folder: bool) -> bool:
    """Whether a path is hidden or ignored: the last rules that name it decide."""
    if name.rpartition("/")[2].startswith("."):
        return True
    path = os.fsencode(name)
    for _, start, own in reversed(rules):
        if (found := verdict(own, path[start:], is_folder=is_folder)) is not None:
            return found
    return False


def printable(text: object) -> str:
    """A text in which the bytes of names that are no UTF-8 are escaped."""
    return str(text).encode(errors="backslashreplace").decode()
