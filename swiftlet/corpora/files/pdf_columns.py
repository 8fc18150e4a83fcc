"""Columns of a page of a PDF whose lines go across them, in the order in which they are read."""

import re
from collections import Counter
from collections.abc import Iterator
from statistics import fmean, median
from typing import Any, NamedTuple

_LEAST_LINES = 6
_LEAST_SHARE = 0.8
_LEAST_WIDTH = 0.6
_LEAST_RATIO = 0.5
_GAP = 1.2
_POINTS = 3.0
_DIVIDED = re.compile(r"(?<=[^\W\d_])[-\ufffe]\n(?=[^\W\d_])")


class _Box(NamedTuple):
    """A part of a line, in points from the left and from the bottom."""

    left: float
    bottom: float
    right: float
    top: float


def page_text(page: Any) -> str:
    """The text of a page of PDFium, one column after the other.

    Most pages have their text in this order. If the lines go across two columns, these have lines
    of full width that begin at one place; so a table with short cells is read by its rows.
    """
    lines = [*_lines(page)]
    start = _right_column(lines)
    whole = str(page.get_text_range())
    if start is None:
        return whole
    columns: tuple[list[str], list[str]] = [], []
    texts: list[str] = []
    for line in lines:
        across = len(line) == 1 and line[0].left < start - _POINTS and line[0].right > start
        if across or len(line) > 2:
            texts += [*columns[0], *columns[1]]
            columns[0].clear()
            columns[1].clear()
        for box in line:
            text = " ".join(page.get_text_bounded(*box).split())
            place = texts if across or len(line) > 2 else columns[box.left >= start - _POINTS]
            place.append(text)
    found = _DIVIDED.sub("\ufffe", "\n".join([*texts, *columns[0], *columns[1]]))
    # A part that overlaps another one could be lost, or come twice.
    return found if _signs(found) == _signs(whole) else whole


def _signs(text: str) -> Counter[str]:
    return Counter(filter(str.isalnum, text))


def _lines(page: Any) -> Iterator[list[_Box]]:
    """The lines in the order of the page, each with its parts that are far from each other."""
    line: list[_Box] = []
    for number in range(page.count_rects()):
        box = _Box(*page.get_rect(number))
        last = line[-1] if line else None
        height = box.top - box.bottom
        if last is None or box.left < last.left or not _is_beside(last, box):
            if line:
                yield line
            line = [box]
        elif box.left - last.right < _GAP * max(height, last.top - last.bottom):
            line[-1] = _Box(
                last.left, min(last.bottom, box.bottom), max(last.right, box.right),
                max(last.top, box.top),
            )  # fmt: skip
        else:
            line.append(box)
    if line:
        yield line


def _is_beside(one: _Box, other: _Box) -> bool:
    overlap = min(one.top, other.top) - max(one.bottom, other.bottom)
    return overlap > 0.5 * min(one.top - one.bottom, other.top - other.bottom)


def _right_column(lines: list[list[_Box]]) -> float | None:
    """Where the right one of two columns begins; None if no lines go across columns."""
    pairs = [line for line in lines if len(line) == 2]
    if len(pairs) < _LEAST_LINES or len(pairs) < 0.5 * len(lines):
        return None
    start = median(right.left for _, right in pairs)
    aligned = [(a, b) for a, b in pairs if abs(b.left - start) < _POINTS and a.right < start]
    if len(aligned) < _LEAST_SHARE * len(pairs):
        return None
    first, last = min(a.left for a, _ in aligned), max(b.right for _, b in aligned)
    left, right = (fmean(line[side].right - line[side].left for line in aligned) for side in (0, 1))
    are_full = left > _LEAST_WIDTH * (start - first) and right > _LEAST_WIDTH * (last - start)
    return start if are_full and _LEAST_RATIO < left / right < 1 / _LEAST_RATIO else None
