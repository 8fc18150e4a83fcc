"""Passages: how an encoder can read them without truncation, and the documents they belong to."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.errors import InvalidArgumentError
from swiftlet.types import Document, Passage, Section, Span

LONGEST_TITLE = 8_192
"""The characters of a title that stand before each passage: 16 for each of 512 tokens."""

_LONGEST_HEADING = 300

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PassageSplitter:
    """Splits documents into passages of at most `max_tokens` tokens.

    `max_tokens` includes the special tokens, the encoder's `prompt`, the document's title and, with
    `headings`, those above the passage. Of both, at most half a passage counts. If they are longer,
    a passage exceeds `max_tokens`, and the encoder truncates it at its own limit.

    The passages of a section are equally long and overlap by about `overlap_tokens`; the stride is
    their length minus the overlap. A block of code between fences, as in Markdown, stays whole if a
    passage can hold it. With `truncate`, a document is one passage, and the encoder
    reads the first `max_tokens` tokens. With `most_words`, a section ends after so many words.
    """

    tokenizer: Tokenizer
    max_tokens: int
    overlap_tokens: int
    truncate: bool = False
    prompt: str = ""
    most_words: int | None = None
    headings: bool = False

    def __post_init__(self) -> None:
        smallest = self._fixed_tokens + 8
        if not smallest <= self.max_tokens <= self.tokenizer.max_tokens:
            raise InvalidArgumentError(
                f"a passage of {self.max_tokens} tokens is out of range: this encoder takes "
                f"{smallest} to {self.tokenizer.max_tokens} (--passage-tokens, in a recipe "
                "passages.tokens)"
            )
        if not 0 <= self.overlap_tokens <= self.max_tokens // 2:
            raise InvalidArgumentError(
                f"an overlap of {self.overlap_tokens} tokens is out of range: passages of "
                f"{self.max_tokens} tokens may overlap by 0 to {self.max_tokens // 2} "
                "(--overlap-tokens, in a recipe passages.overlap_tokens)"
            )

    @property
    def _fixed_tokens(self) -> int:
        """The tokens that every passage has."""
        return self.tokenizer.num_special_tokens + self.tokenizer.count(self.prompt)

    def split(self, document: Document) -> Iterator[Passage]:
        """The passages of `document`, in order; at least one, even if it has only a title."""
        for number, (start, end) in enumerate(self._spans(document)):
            yield document.passage(number, start, end)

    def _spans(self, document: Document) -> Iterator[Span]:
        if self.truncate:
            yield 0, len(document.text)
            return
        most = self.max_tokens - self._fixed_tokens
        title, found = 0, False
        for start, end, heading in document.sections or (Section(0, len(document.text)),):
            words = self._words(document.text, start, end)
            # After the text: what it has of their words is known by then.
            title = title or self.tokenizer.count(document.title[:LONGEST_TITLE])
            above = self.tokenizer.count(heading[:_LONGEST_HEADING]) if self.headings else 0
            budget = most - min(title + above, most // 2)
            overlap = min(self.overlap_tokens, budget // 2)
            words = _with_whole_code(words, document.text, start, end, budget)
            for span in self._cut(words, budget, overlap):
                found = True
                yield span
        if not found:
            yield 0, 0

    def _words(self, text: str, start: int, end: int) -> NDArray[np.int64]:
        """The words (n, 3) of a section, start, end and tokens of each."""
        blocks = [np.empty((0, 3), np.int64)]
        for block in self.tokenizer.blocks(text, start, end):
            blocks.append(block)
            if self.most_words is not None and sum(map(len, blocks)) >= self.most_words:
                break
        return np.concatenate(blocks)[: self.most_words]

    @staticmethod
    def _cut(words: NDArray[np.int64], budget: int, overlap: int) -> Iterator[Span]:
        if not len(words):
            return
        # before[i]: the tokens before word i, strictly increasing
        before = np.concatenate(([0], np.cumsum(words[:, 2])))
        first = stop = 0
        while True:
            # The length is computed again for each passage: rounding errors are spread over all
            # later passages, and no short passage is left at the end.
            rest = int(before[-1] - before[first])
            count = 1 if rest <= budget else -(-(rest - overlap) // (budget - overlap))
            length = (rest + (count - 1) * overlap) / count
            within_budget = int(np.searchsorted(before, before[first] + budget, side="right")) - 1
            stop = max(stop + 1, min(_nearest(before, before[first] + length), within_budget))
            yield int(words[first, 0]), int(words[stop - 1, 1])
            if stop == len(words):
                return
            # If the next word is long, the overlap is shorter, down to none.
            room = int(np.searchsorted(before, before[stop + 1] - budget))
            first = min(stop, max(_nearest(before, before[stop] - overlap), room))


def _with_whole_code(
    words: NDArray[np.int64], text: str, start: int, end: int, budget: int
) -> NDArray[np.int64]:
    """Words (n, 3), start, end and tokens of each, with every block of code as one word."""
    kept = np.ones(len(words), np.bool)
    for block in blocks_of_code(text, start, end):
        first, stop = np.searchsorted(words[:, 0], block)
        tokens = words[first:stop, 2].sum()
        if first < stop and tokens <= budget:
            words[first, 1:] = words[stop - 1, 1], tokens
            kept[first + 1 : stop] = False
    return words[kept]


def blocks_of_code(text: str, start: int, end: int) -> Iterator[Span]:
    """The spans of blocks between two fences, in order; one that is not closed is none."""
    # From the end, with the next fence of each length that may close a block: the nearest is last,
    # and the fences before it are longer. So the time is linear, whatever is not closed.
    spans, closing = list[Span](), dict[str, list[tuple[int, int]]]()
    for fence in reversed([*_FENCE.finditer(text, start, end)]):
        length, after = len(fence[1]), fence[2]
        nearest = closing.setdefault(fence[1][0], [])
        if "`" not in after and (found := bisect_right(nearest, (-length, end))):
            spans.append((fence.start(), nearest[found - 1][1]))
        if not after.rstrip(" \t").strip("`~"):
            while nearest and -nearest[-1][0] <= length:
                nearest.pop()
            nearest.append((-length, fence.end()))
    stop = start
    for span in reversed(spans):
        if span[0] >= stop:
            stop = span[1]
            yield span


def _nearest(ascending: NDArray[np.int64], value: float) -> int:
    """The index of the element that is nearest to `value`."""
    above = int(np.searchsorted(ascending[:-1], value))
    return above - 1 if above and value - ascending[above - 1] < ascending[above] - value else above


def encoder_text(title: str, passage: str, heading: str = "") -> str:
    """The input of a document encoder for a passage: title of its document, heading, text.

    Of a title that is longer than an encoder reads, a passage has the beginning: a document with
    many passages would have it as often. A title without a text is whole.
    """
    if heading := heading[:_LONGEST_HEADING]:
        title = f"{title[:LONGEST_TITLE]} {heading}" if title else heading
    return f"{title[:LONGEST_TITLE] if passage else title} {passage}" if title else passage


def reads_headings(details: Mapping[str, Any]) -> bool:
    """Whether the passages of an index were encoded with the headings above them.

    :param details: Those of its manifest; indexes of versions up to 0.2.0 know of no headings.
    """
    return bool(details.get("splitting", {}).get("headings", False))


def read_texts(
    document: Document, spans: Iterable[Span], details: Mapping[str, Any]
) -> Iterator[str]:
    """What the encoder of an index reads of passages of a document.

    :param details: As in `reads_headings`.
    """
    headings = reads_headings(details)
    for start, end in spans:
        heading = document.heading_at(start) if headings else ""
        yield encoder_text(document.title, document.text[start:end], heading)
