"""Texts that a regular expression may take long for, made of the expression's own parts."""

import re
from collections.abc import Iterator
from itertools import islice, product
from re import _compiler as compiler  # type: ignore[attr-defined]
from re import _constants as code  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from tests.growth import grows_evenly, least_seconds

_TYPICAL = "a0 \n\t.-_\"'<é«\x00"
_LONGEST_REPEAT = 40
_MOST_EXAMPLES, _MOST_PARTS, _MOST_HEADS = 8, 14, 6
_CHARACTERS, _MOST_CHARACTERS = 600, 50_000
_SLOWEST = 2
_MEASURABLE, _LONG = 0.005, 0.01
"""Seconds: with fewer, the clock says little; with more, the first texts that are tried suffice."""
_REPEATS = (code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT)


def slow_text(pattern: re.Pattern[Any], *, at_one_place: bool) -> str:
    """A part of a text whose repetition takes a time that grows faster than the text; or none.

    :param at_one_place: Whether the pattern is only matched at the beginning of texts.
    """
    run = pattern.fullmatch if at_one_place else pattern.finditer
    is_text = isinstance(pattern.pattern, str)

    def seconds(attack: tuple[str, str, str], count: int, rounds: int = 1) -> float:
        given = _of_length(attack, count)
        text = given if is_text else given.encode("latin-1", "replace")

        def matched() -> None:
            found = run(text)
            for _ in found if found is not None and not at_one_place else ():
                pass
            if at_one_place:
                pattern.match(text)

        return least_seconds(matched, rounds)

    found: list[tuple[float, tuple[str, str, str]]] = []
    for attack in attacks(pattern):
        found.append((seconds(attack, _CHARACTERS), attack))
        if found[-1][0] > _LONG:
            break
    for _, attack in sorted(found)[-_SLOWEST:]:
        count = _CHARACTERS // 2
        # A call that something disturbed once would end this too early.
        while seconds(attack, count, 3) < _MEASURABLE and count < _MOST_CHARACTERS:
            count *= 2
        if not grows_evenly(lambda count, tried=attack: seconds(tried, count), count):
            return f"{attack}"
    return ""


def attacks(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """The beginning, the part that is repeated, and the end of texts."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode()
    parts: dict[str, None] = {}
    examples = _of_sequence(parser.parse(source, pattern.flags & ~re.UNICODE), parts, {})
    starts = [one[:end] for one in islice(filter(None, examples), 2) for end in range(1, len(one))]
    heads = dict.fromkeys(["", *starts[:_MOST_HEADS], *examples[:1]])
    singles = [*islice(parts, _MOST_PARTS)]
    pumps = dict.fromkeys([*singles, *starts[:20], *examples])
    pumps |= dict.fromkeys(map("".join, product(singles[:7], repeat=2)))
    pumps |= dict.fromkeys(f"{one}{sign}" for one in starts[:12] for sign in " \n")
    yield from product(heads, filter(None, pumps), ("", "!"))


def _of_length(attack: tuple[str, str, str], count: int) -> str:
    head, pump, end = attack
    return head + pump * (count // len(pump) + 1) + end


def _of_sequence(sequence: Any, parts: dict[str, None], groups: dict[int, str]) -> list[str]:
    """A few texts that match, most of them without what may be left out; `parts` gets theirs."""
    examples = [""]
    for kind, value in sequence:
        each = _of_part(kind, value, parts, groups)
        parts.update(dict.fromkeys(one for one in each if 0 < len(one) <= _LONGEST_REPEAT))
        examples = [a + b for a, b in product(examples, each)][:_MOST_EXAMPLES]
    return examples


def _of_part(kind: Any, value: Any, parts: dict[str, None], groups: dict[int, str]) -> list[str]:
    match kind:
        case code.LITERAL:
            return [chr(value)]
        case code.IN | code.ANY | code.NOT_LITERAL | code.CATEGORY:
            return _of_class(kind, value)
        case code.SUBPATTERN:
            found = _of_sequence(value[-1], parts, groups)
            groups[value[0]] = found[0]
            return found
        case code.BRANCH:
            branches = (_of_sequence(each, parts, groups) for each in value[1])
            return [one for branch in branches for one in branch[:2]][:_MOST_EXAMPLES]
        case code.GROUPREF:
            return [groups[value]]
        case code.ATOMIC_GROUP:
            return _of_sequence(value, parts, groups)
        case code.ASSERT | code.ASSERT_NOT:
            return ["", *_of_sequence(value[1], parts, groups)[:2]]
        case code.AT:
            return ["", "\n"]
    if kind not in _REPEATS:
        raise AssertionError(f"{kind} is a part of an expression that has no example")
    least, _, repeated = value
    inner = _of_sequence(repeated, parts, groups)[:2]
    times = min(max(least, 1), _LONGEST_REPEAT)
    return [one * times for one in inner] + [""] * (least == 0)


def _of_class(kind: Any, value: Any) -> list[str]:
    """Characters of a class: typical ones, and the first of those that it names."""
    named = [chr(each if kind is code.LITERAL else each[0])
             for kind, each in (value if kind is code.IN else ())
             if kind in (code.LITERAL, code.RANGE)]  # fmt: skip
    tree = parser.parse("")
    tree.append((kind, value))
    one = compiler.compile(tree, re.DOTALL).fullmatch
    return [each for each in dict.fromkeys([*named[:3], *_TYPICAL]) if one(each)][:4]
