"""Typing errors: the words of an index for a word that it does not have."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import islice

from swiftlet.index.lexical.analysis import Analysis
from swiftlet.index.lexical.words import words_in

EXACT_BELOW = 4
"""Shorter words must be typed without an error: with one, they match too many words."""

_LONGEST = 30
_MOST_ERRORS = 8
"""The words of a query that are corrected at most: a longer query is a text, and costs time."""
MOST_NEAR = 8
"""The words of passages that stand for one of the query at most."""

_ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz",
    "абвгдежзийклмнопрстуфхцчшщъыьэюяєіґўјљњћђџ",
    "αβγδεζηθικλμνξοπρστυφχψω",
    "ءابةتثجحخدذرزسشصضطظعغفقكلمنهويى",
    "אבגדהוזחטיךכלםמןנסעףפץצקרשת",
)


def corrections(
    text: str,
    analysis: Analysis,
    known: Mapping[str, int],
    passages: Callable[[Sequence[str]], Mapping[str, int]],
) -> Iterator[tuple[Sequence[str], Mapping[str, int]]]:
    """The words of a query that no passage has, and what may be meant by each.

    :param known: How many passages have each word of the query.
    :param passages: Gives how many passages have each of some words.
    :returns: The forms of each word, and the words of passages that are one typing error away from
        it and not in the query: those that most passages have, with their numbers.
    """
    typed = [each[0] for each in words_in(text) if each[0][1:].lower() == each[0][1:]]
    forms = {tuple(analysis.kept_words(word)): word for word in typed}
    unknown = (own for own in forms if own and not any(known.get(each, 1) for each in own))
    for own in islice(unknown, _MOST_ERRORS):
        # The stem of a word with an error may be far from the right one, so errors come first.
        texts = " ".join(one_error_away(analysis.bare(forms[own])))
        near = dict.fromkeys(analysis.words(texts))
        found = passages([each for each in near if each not in known])
        if best := nlargest(MOST_NEAR, filter(found.get, found), key=found.__getitem__):
            yield own, {each: found[each] for each in best}


def one_error_away(word: str) -> list[str]:
    """The texts from which a word comes by one typing error.

    A letter is wrong, missing or too much, or two neighbours are exchanged. There are none for a
    word of less than four letters, with digits, or in a script without an alphabet here: in such
    a script, a letter more or less makes another word.
    """
    letters = next((each for each in _ALPHABETS if {*word} <= {*each}), "")
    if not letters or not EXACT_BELOW <= len(word) <= _LONGEST:
        return []
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    texts = [a + b[1] + b[0] + b[2:] for a, b in cuts if len(b) > 1]
    texts += [a + b[1:] for a, b in cuts if b]
    texts += [a + letter + b for a, b in cuts for letter in letters]
    texts += [a + letter + b[1:] for a, b in cuts if b for letter in letters]
    return [each for each in dict.fromkeys(texts) if each != word]
