"""The smallest packet that answers: what a search found, for the context of a language model.

The best passages of the best documents are grown to whole sentences and merged, until a number of
tokens is full. Each excerpt names where it stands.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain, repeat
from operator import attrgetter, itemgetter

from swiftlet.errors import UnknownDocumentError
from swiftlet.types import FRONT_MATTER_LINES, Context, Document, Excerpt, Passage, Section, Span

_BYTES_OF_TOKEN, _LONGEST_TITLE = 4, 200
_LONGEST_GROWTH, _LEAST_BYTES = 400, 240
_END = re.compile(r"[.!?…][\"'\u201d\u2019)\]]*(?=\s)|[\u3002\uff01\uff1f]|\n(?=[^\S\n]*\n)")
_SPACES = re.compile(r"\s*\n|\s*")  # an indentation belongs to what follows


def num_tokens(text: str) -> int:
    """About how many tokens a text is to a language model: models differ."""
    return -(-len(text.encode()) // _BYTES_OF_TOKEN)


def cut(text: str, max_tokens: int) -> str:
    """The beginning of a text, up to `max_tokens` tokens, cut at a space if there is one."""
    if num_tokens(text) <= max_tokens:
        return text
    part = text.encode()[: max(0, max_tokens) * _BYTES_OF_TOKEN].decode(errors="ignore")
    return part[: max(part.rfind(" "), part.rfind("\n")) + 1] or part


def packed(
    ranked: Iterable[tuple[Passage, float]], read: Callable[[str], Document], max_tokens: int
) -> Context:
    """The best passages within `max_tokens` tokens; of the best one the beginning, if it has room.

    :param ranked: Passages with their scores, the best one first; their texts are not needed. As
        many are taken as have room.
    :param read: Gives the document with an id. Each is read once, and one is held at a time.
    """
    left = max_tokens * _BYTES_OF_TOKEN
    of_document: dict[str, list[tuple[Passage, float]]] = {}
    order, length = list[str](), 0
    for passage, score in ranked:
        order.append(passage.document_id)
        of_document.setdefault(passage.document_id, []).append((passage, score))
        # Neighbours overlap by half at most, so twice the text is as much as has room.
        if (length := length + passage.end - passage.start) > 2 * left:
            break
    found, cut_out = dict[str, list[Excerpt]](), dict[str, Iterator[Excerpt | None]]()
    for name in order:
        if name not in cut_out:
            cut_out[name] = _excerpts(read, name, of_document[name])
        if (excerpt := next(cut_out[name])) is None:
            continue
        others = found.get(name, [])
        near = [each for each in others if _touch(each, excerpt)]
        merged = reduce(_joined, sorted([*near, excerpt], key=_START))
        heads = 0 if others else _size([_head(excerpt)])
        size = heads + _size(_lines(merged)) - sum(_size(_lines(each)) for each in near)
        if size > left:
            room = left - heads - _size(_lines(replace(merged, text="")))
            if near or (found and room < _LEAST_BYTES):
                break
            text = cut(merged.text, room // _BYTES_OF_TOKEN)
            if not text.strip():
                break
            last = merged.first_line + text.count("\n")
            merged = replace(merged, text=text, end=merged.start + len(text), last_line=last)
        left -= size
        kept = (each for each in others if each not in near)
        found[name] = sorted([*kept, merged], key=_START)
        if left <= 0:
            break
    excerpts = [*chain.from_iterable(found.values())]
    text = cut("\n\n".join(map(_written, found.values())), max_tokens)
    return Context(text, excerpts, num_tokens(text))


_START = attrgetter("start")


def _excerpts(
    read: Callable[[str], Document], name: str, passages: Sequence[tuple[Passage, float]]
) -> Iterator[Excerpt | None]:
    """The excerpt of each passage of a document; None if another program has deleted it."""
    try:
        document = read(name)
    except UnknownDocumentError:
        return repeat(None)
    text, spans = document.text, [grown(document, passage) for passage, _ in passages]
    ends = [start + len(text[start:end].rstrip()) for start, end in spans]
    before = document.metadata.get(FRONT_MATTER_LINES)
    line_at, line, place = dict[int, int](), 1 + (before if isinstance(before, int) else 0), 0
    for following in sorted({*ends, *(start for start, _ in spans)}):
        line += text.count("\n", place, following)
        line_at[following], place = line, following
    return iter([
        Excerpt(
            name, document.title, passage.heading, start, end, line_at[start], line_at[last],
            text[start:end], score,
        )
        for (passage, score), (start, end), last in zip(passages, spans, ends, strict=True)
    ])  # fmt: skip


def grown(document: Document, passage: Passage) -> Span:
    """The span of a passage with the whole of its first and its last sentence.

    It stays in its section. Where no sentence begins or ends within 400 characters, as in code, it
    is a line. The spaces after a sentence belong to it, so neighbours have none between them.
    """
    text, start, end = document.text, passage.start, passage.end
    number = bisect_right(document.sections, start, key=itemgetter(0)) - 1
    section = document.sections[number] if number >= 0 else Section(0, len(text))
    first, last = min(section.start, start), max(section.end, end)
    least, most = max(first, start - _LONGEST_GROWTH), min(last, end + _LONGEST_GROWTH)
    sentences = [found.end() for found in _END.finditer(text, least, start)]
    if sentences:
        start = min(_after_spaces(text, sentences[-1]), start)
    else:
        start = first if least == first else text.rfind("\n", least, start) + 1 or start
    if sentence := _END.search(text, max(passage.start, end - 1), most):
        end = max(sentence.end(), end)
    else:
        end = last if most == last else max(text.find("\n", end, most), end)
    return start, min(_after_spaces(text, end), last)


def _after_spaces(text: str, place: int) -> int:
    found = _SPACES.match(text, place)
    return found.end() if found else place


def _touch(one: Excerpt, other: Excerpt) -> bool:
    return one.start <= other.end and other.start <= one.end and one.heading == other.heading


def _joined(one: Excerpt, other: Excerpt) -> Excerpt:
    """Both as one; the first begins before the other."""
    return replace(
        one,
        end=max(one.end, other.end),
        last_line=max(one.last_line, other.last_line),
        text=one.text + other.text[one.end - other.start :],
        score=max(one.score, other.score),
    )


def _head(excerpt: Excerpt) -> str:
    name = "" if excerpt.title == excerpt.document_id else excerpt.title[:_LONGEST_TITLE]
    return f"[{excerpt.document_id}] {' '.join(name.split())}".rstrip()


def _lines(excerpt: Excerpt) -> list[str]:
    """An excerpt below the head of its document."""
    lines = f"{excerpt.first_line}"
    if excerpt.last_line > excerpt.first_line:
        lines += f"-{excerpt.last_line}"
    heading = excerpt.heading[:_LONGEST_TITLE]
    return [f"line {lines}{heading and f', {heading}'}:", excerpt.text.rstrip(), ""]


def _written(excerpts: Sequence[Excerpt]) -> str:
    """The excerpts of a document, below its name."""
    return "\n".join([_head(excerpts[0]), *chain.from_iterable(map(_lines, excerpts))]).rstrip()


def _size(lines: Iterable[str]) -> int:
    """The bytes of lines, each with its end."""
    return sum(len(line.encode()) + 1 for line in lines)
