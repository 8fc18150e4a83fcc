"""The streams of a compound file of Microsoft's (OLE 2), which Outlook's e-mails are."""

import struct
from collections.abc import Iterator

_MAGIC = bytes.fromhex("d0cf11e0a1b11ae1")
_LAST = 0xFFFF_FFFA  # numbers from here on are no sectors
_ENTRY = 128
_STORAGE, _STREAM, _ROOT = 1, 2, 5
_DEEPEST = 2  # below are e-mails in e-mails


class CompoundFile:
    """The streams by their paths, "folder/name"; a chain of sectors that has no end is cut.

    :raises ValueError: When it is no compound file.
    """

    def __init__(self, content: bytes) -> None:
        """Read the tables of sectors, and the names."""
        if not content.startswith(_MAGIC) or len(content) < 512:
            raise ValueError("it is no compound file, as those of Outlook are")
        self._content = content
        self._size = 1 << min(int.from_bytes(content[30:32], "little"), 16)
        first_entry, _, self._cutoff, first_small = struct.unpack_from("<IIII", content, 48)
        tables, more = (
            list(struct.unpack_from("<109I", content, 76)),
            int.from_bytes(content[68:72], "little"),
        )
        most = len(content) // self._size + 1
        while more < _LAST and len(tables) <= 109 + most:
            numbers = self._numbers(self._sector(more))
            tables += numbers[:-1]
            more = numbers[-1] if numbers else _LAST
        self._next = [
            number
            for table in tables
            if table < _LAST
            for number in self._numbers(self._sector(table))
        ][: most + 1]
        self._small_next = self._numbers(self._stream(first_small, len(content)))
        entries = self._stream(first_entry, len(content))
        self._entries = [
            entries[at : at + _ENTRY] for at in range(0, len(entries) - _ENTRY + 1, _ENTRY)
        ]
        self._small = b""
        if self._entries:
            self._small = self._stream(*struct.unpack_from("<IQ", self._entries[0], 116))
        self._streams = dict(self._walk())

    def get(self, path: str) -> bytes | None:
        """The bytes of a stream; None if there is none."""
        if (found := self._streams.get(path)) is None:
            return None
        start, size = found
        if size >= self._cutoff:
            return self._stream(start, size)
        pieces, left = list[bytes](), min(size, len(self._content))
        while left > 0 and start < len(self._small_next):
            pieces.append(self._small[64 * start : 64 * start + 64])
            left, start = left - 64, self._small_next[start]
        return b"".join(pieces)[:size]

    def __iter__(self) -> Iterator[str]:
        """The paths of all streams."""
        return iter(self._streams)

    def _walk(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Each entry once, however they point at each other."""
        pending, seen = [(0, "")], {0xFFFF_FFFF}
        while pending:
            number, folder = pending.pop()
            if number in seen or number >= len(self._entries):
                continue
            seen.add(number)
            entry = self._entries[number]
            length, kind = int.from_bytes(entry[64:66], "little"), entry[66]
            name = entry[: max(min(length, 64) - 2, 0)].decode("utf-16-le", "replace")
            (
                left,
                right,
                child,
            ) = struct.unpack_from("<III", entry, 68)
            pending += [(left, folder), (right, folder)]
            if kind in {_STORAGE, _ROOT} and folder.count("/") < _DEEPEST:
                pending.append((child, folder if kind == _ROOT else f"{folder}{name}/"))
            elif kind == _STREAM:
                yield f"{folder}{name}", struct.unpack_from("<IQ", entry, 116)

    def _sector(self, number: int) -> bytes:
        start = (number + 1) * self._size
        return self._content[start : start + self._size]

    def _stream(self, start: int, size: int) -> bytes:
        pieces, left, steps = list[bytes](), min(size, len(self._content)), len(self._next)
        while left > 0 and start < len(self._next) and steps >= 0:
            pieces.append(self._sector(start))
            left, start, steps = left - self._size, self._next[start], steps - 1
        return b"".join(pieces)[:size]

    @staticmethod
    def _numbers(content: bytes) -> list[int]:
        return [*struct.unpack(f"<{len(content) // 4}I", content[: len(content) // 4 * 4])]
