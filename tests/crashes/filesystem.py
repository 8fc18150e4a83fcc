"""A file system in memory, made from a log of changes: what a crash leaves of it.

A kill leaves all changes. A loss of power leaves what was synced, and any part of the rest: the
content of a file is safe when the file was synced, a name when its directory was. A rename and an
exchange happen as a whole, as the journals of ext4 and xfs have it.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.crashes.recorder import Entry, Op

_LAST_NAMES = 4

Names = dict[str, "Node"]


@dataclass(eq=False)
class Node:
    """A file, a link or a directory: as it is, as it is on the disk, and the changes in between."""

    content: bytearray | Names | str
    safe: bytes | Names | str
    writes: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Offsets and data that are not synced; a length without data is a truncation."""


@dataclass(eq=False, slots=True)
class Renaming:
    """Names that change together: of a directory, the name, and what has it then."""

    changes: tuple[tuple[Node, str, Node | None], ...]


class FileSystem:
    """The directory `root` as the log says; it began as it is on the disk now."""

    def __init__(self, root: Path) -> None:
        self.root, self._inodes = root, dict[int, Node]()
        self._names: list[Renaming] = []
        self._top = self._read(root)

    def apply(self, entry: Entry) -> None:
        """Make one change."""
        match entry.op:
            case Op.CREATE:
                self._inodes[entry.inode] = made = Node(bytearray(), b"")
                self._rename((*self._place(entry.path), made))
            case Op.MKDIR:
                self._inodes[entry.inode] = made = Node({}, {})
                self._rename((*self._place(entry.path), made))
            case Op.LINK:
                self._rename((*self._place(entry.path), Node(entry.other, entry.other)))
            case Op.WRITE | Op.TRUNCATE:
                node = self._inodes[entry.inode]
                data = entry.data if entry.op is Op.WRITE else None
                node.writes.append((entry.offset, data))
                _write(node.content, entry.offset, data)
            case Op.SYNC:
                self._sync(self._inodes[entry.inode])
            case Op.RENAME | Op.EXCHANGE:
                first, second = self._place(entry.path), self._place(entry.other)
                a, b = first[0].content[first[1]], second[0].content.get(second[1])
                left = b if entry.op is Op.EXCHANGE else None
                self._rename((*first, left), (*second, a))
            case Op.UNLINK | Op.RMDIR:
                self._rename((*self._place(entry.path), None))

    def after_kill(self) -> dict[str, bytes | None]:
        """What a killed process leaves: files by their paths; None stands for a directory."""
        return dict(_files(self._top, lambda node: bytes(node.content), lambda node: node.content))

    def after_power_loss(self, seed: int, random_states: int) -> Iterator[dict[str, bytes | None]]:
        """What a loss of power may leave.

        The disk may have kept nothing that is not synced, all names and no content, all content and
        no names, the names up to each of the last few, and any part of both.
        """
        choice = random.Random(seed)
        everything = [*range(len(self._names))]
        for kept in (len(everything), 0):
            for share in (0.0, 1.0):
                yield self._survives(everything[:kept], share, choice)
        yield self._survives(everything, 0.0, choice, zeros=True)
        for end in everything[-_LAST_NAMES:]:
            yield self._survives(everything[:end], 0.0, choice)
        for _ in range(random_states):
            kept = [each for each in everything if choice.random() < 0.5]
            yield self._survives(kept, choice.random(), choice)

    def _survives(
        self, renamings: Sequence[int], share: float, choice: random.Random, *, zeros: bool = False
    ) -> dict[str, bytes | None]:
        """The files if these names and a share of the writes survive.

        A lost write at the end of a file may leave `zeros`; one over blocks that are safe leaves
        these as they were.
        """
        names: dict[Node, Names] = {}
        for number in renamings:
            for directory, name, node in self._names[number].changes:
                kept = names.setdefault(directory, dict(directory.safe))
                kept.pop(name, None)
                if node is not None:
                    kept[name] = node

        def content(node: Node) -> bytes:
            found = bytearray(node.safe)
            for offset, data in node.writes:
                if choice.random() < share:
                    _write(found, offset, data)
                elif zeros and data is not None and offset >= len(node.safe):
                    _write(found, offset, bytes(len(data)))
            return bytes(found)

        return dict(_files(self._top, content, lambda node: names.get(node, node.safe)))

    def _read(self, path: Path) -> Node:
        if path.is_symlink():
            return Node(str(path.readlink()), str(path.readlink()))
        if path.is_dir():
            names = {each.name: self._read(each) for each in path.iterdir()}
            node = Node(names, dict(names))
        else:
            node = Node(bytearray(path.read_bytes()), path.read_bytes())
        self._inodes[path.stat().st_ino] = node
        return node

    def _place(self, path: str) -> tuple[Node, str]:
        """The directory of a path, and the name in it."""
        *parents, name = Path(path).relative_to(self.root).parts
        node = self._top
        for each in parents:
            node = node.content[each]
        return node, name

    def _rename(self, *changes: tuple[Node, str, Node | None]) -> None:
        for directory, name, node in changes:
            if node is None:
                directory.content.pop(name, None)
            else:
                directory.content[name] = node
        self._names.append(Renaming(changes))

    def _sync(self, node: Node) -> None:
        if not isinstance(node.content, dict):
            node.safe, node.writes = bytes(node.content), []
            return
        waiting, self._names = self._names, []
        for renaming in waiting:
            if not any(directory is node for directory, _, _ in renaming.changes):
                self._names.append(renaming)
                continue
            for directory, name, other in renaming.changes:
                directory.safe.pop(name, None)
                if other is not None:
                    directory.safe[name] = other


def write_out(files: dict[str, bytes | None], root: Path) -> None:
    """Make the files in the empty directory `root`."""
    for path, content in files.items():
        if content is None:
            (root / path).mkdir()
        elif isinstance(content, str):
            (root / path).symlink_to(content)
        else:
            (root / path).write_bytes(content)


def _write(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        data = b""
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


def _files(top: Node, content, names, before: str = "") -> Iterable[tuple[str, bytes | None]]:
    for name, node in names(top).items():
        path = before + name
        if isinstance(node.content, dict):
            yield path, None
            yield from _files(node, content, names, f"{path}/")
        else:
            yield path, node.content if isinstance(node.content, str) else content(node)
