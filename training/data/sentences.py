"""Sentences and titles of a corpus, which replace queries if there is no query log."""

import re
from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple

from swiftlet.types import Document

FEWEST_WORDS, MOST_WORDS = 2, 48

# The end of a sentence: a mark, closing quotes or brackets, space, and the start of a sentence.
_END = re.compile(
    "(?<=[.!?])[\"'\u201d\u2019)\\]]*\\s+(?=[\"'\u201c\u2018(\\[]*[A-Z0-9])|\\n\\s*\\n"
)


def sentences(document: Document) -> Iterator[str]:
    """The title and the sentences of a document with at least 2 words, cut after 48 words."""
    for text in (document.title, *_END.split(document.text)):
        words = text.split()
        if len(words) >= FEWEST_WORDS:
            yield " ".join(words[:MOST_WORDS])


class Sentence(NamedTuple):
    """A sentence, and the document that it is from."""

    text: str
    document_id: str


def sample_sentences(documents: Iterable[Document], count: int, seed: int) -> list[Sentence]:
    """A uniform sample of at most `count` sentences; memory is proportional to `count`."""
    random = Random(seed)  # noqa: S311 - a sample, not a secret
    kept: list[Sentence] = []
    seen = 0
    for document in documents:
        for text in sentences(document):
            sentence = Sentence(text, document.document_id)
            seen += 1
            if len(kept) < count:
                kept.append(sentence)
            elif (place := random.randrange(seen)) < count:
                kept[place] = sentence
    return kept
