"""Ways to make a context of what a search finds, and a reader who greps instead."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from unittest.mock import patch

import numpy as np

from experiments.contexts.questions import Question, starts_of_lines
from swiftlet.search import context
from swiftlet.search.ranking import weighted_sum
from swiftlet.search.request import CONTEXT_WEIGHT, DEFAULT_WEIGHT
from swiftlet.search.searcher import Searcher
from swiftlet.search.stages import hits
from swiftlet.types import Context, Document, Excerpt, Passage, Span

WORD = re.compile(r"\w+")

Ranked = Sequence[tuple[Passage, float]]


def paragraphs(document: Document, passage: Passage) -> Span:
    """A passage, grown to whole paragraphs."""
    before = document.text.rfind("\n\n", 0, passage.start)
    after = document.text.find("\n\n", passage.end)
    return (before + 2 if before >= 0 else 0), (after if after >= 0 else len(document.text))


def neighbours(document: Document, passage: Passage) -> Span:
    """A passage with half of the text before it and after it, in whole sentences."""
    more, end = (passage.end - passage.start) // 2, len(document.text)
    wider = document.passage(0, max(0, passage.start - more), min(end, passage.end + more))
    return SENTENCES(document, wider)


def alone(_document: Document, passage: Passage) -> Span:
    """A passage as it is."""
    return passage.start, passage.end


SENTENCES, CONTEXT, HITS, GREP = context.grown, "sentences", "hits", "grep, then read"
SEARCH, OWN = "in the order of a search", "the asked document alone"
GROWTHS: dict[str, Callable[[Document, Passage], Span]] = {
    HITS: alone, "passages": alone, CONTEXT: SENTENCES, "neighbours": neighbours,
    "paragraphs": paragraphs, SEARCH: SENTENCES, OWN: SENTENCES,
}  # fmt: skip
SYSTEMS = [*GROWTHS, GREP]


def packed(
    system: str, ranked: Ranked, read: Callable[[str], Document], max_tokens: int
) -> list[Excerpt]:
    """The excerpts that a way makes of the passages of a question."""
    with patch.object(context, "grown", GROWTHS[system]):
        return context.packed(ranked, read, max_tokens).excerpts


def rankings(
    searcher: Searcher, passages: Sequence[Passage], asked: Question, weight: float | None,
    max_tokens: int,
) -> Mapping[str, Ranked]:  # fmt: skip
    """The passages of a question in the order of each way, as many as have room."""
    ranked = _ranked(searcher, asked, weight, max_tokens)
    best: dict[str, tuple[Passage, float]] = {}
    for each in ranked:
        best.setdefault(each[0].document_id, each)
    with patch.object(hits, "_OF_DOCUMENT", 0):
        of_search = _ranked(searcher, asked, weight or DEFAULT_WEIGHT, max_tokens)
    own = [row for row, each in enumerate(passages) if each.document_id == asked.document_id]
    rows, parts = np.array(own), searcher.parts
    dense = parts.index.scores(searcher.encoder.encode([asked.text])[0], rows)
    words = parts.lexical.parse(asked.text).scores(rows) if parts.lexical else 0 * dense
    scores = weighted_sum(dense, words, weight or CONTEXT_WEIGHT)
    order = np.argsort(-scores, kind="stable").tolist()
    of_document = [(passages[own[place]], float(scores[place])) for place in order]
    orders: dict[str, Ranked] = dict.fromkeys(GROWTHS, ranked)
    return orders | {HITS: [*best.values()], SEARCH: of_search, OWN: of_document}


def _ranked(searcher: Searcher, asked: Question, weight: float | None, max_tokens: int) -> Ranked:
    """What a search gives to be packed, in order; it packs nothing."""
    taken: list[tuple[Passage, float]] = []

    def take(ranked: Iterable[tuple[Passage, float]], *_: object) -> Context:
        taken.extend(ranked)
        return Context("", [], 0)

    with patch.object(hits, "packed", take):
        searcher.context(asked.text, max_tokens, weight=weight)
    return taken


class Grep:
    """Greps the words of a question, and reads the files with the rarest of them, from there on."""

    def __init__(
        self, documents: Sequence[Document], *, lines_before: int, characters: int
    ) -> None:
        self._lines_before, self._characters = lines_before, characters
        self._texts = {each.document_id: each.text for each in documents}
        self._starts = {name: starts_of_lines(text) for name, text in self._texts.items()}
        self._places: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for name, text in self._texts.items():
            for number, line in enumerate(text.split("\n")):
                for word in {*WORD.findall(line.lower())}:
                    self._places[word][name].append(number)

    def context(self, query: str, max_tokens: int) -> list[Excerpt]:
        """What is read within a number of tokens; what grep prints costs nothing."""
        files, lines = defaultdict[str, float](float), defaultdict[tuple[str, int], float](float)
        for word in sorted({*WORD.findall(query.lower())} & self._places.keys()):
            weight = math.log((len(self._texts) + 1) / len(self._places[word]))
            for name, numbers in self._places[word].items():
                files[name] += weight
                for number in numbers:
                    lines[name, number] += weight
        best: dict[str, int] = {}
        for name, number in sorted(lines, key=lambda each: (-lines[each], each)):
            best.setdefault(name, number)
        left, found = 4 * max_tokens, list[Excerpt]()
        for name in sorted(files, key=lambda each: (-files[each], each)):
            start = self._starts[name][max(0, best[name] - self._lines_before)]
            size = min(left - len(name), self._characters)
            if size <= 0:
                break
            text = self._texts[name][start : start + size]
            found.append(Excerpt(name, "", "", start, start + len(text), 0, 0, text, 0))
            left -= len(name) + len(text.encode())
        return found
