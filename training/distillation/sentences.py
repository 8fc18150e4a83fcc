"""Sentences and titles of a corpus, which stand in for queries where nobody has logged any."""

import re
from collections.abc import Iterable, Iterator
from random import Random

from retrieval.types import Document

FEWEST_WORDS, MOST_WORDS = 2, 48

# Where a sentence ends: its mark, what closes it, space, and what looks like another's beginning.
_END = re.compile(
    "(?<=[.!?])[\"'\u201d\u2019)\\]]*\\s+(?=[\"'\u201c\u2018(\\[]*[A-Z0-9])|\\n\\s*\\n"
)


def sentences(document: Document) -> Iterator[str]:
    """The title and the sentences of a document, of at least 2 words and cut after 48."""
    for text in (document.title, *_END.split(document.text)):
        words = text.split()
        if len(words) >= FEWEST_WORDS:
            yield " ".join(words[:MOST_WORDS])


def sample_sentences(documents: Iterable[Document], count: int, seed: int) -> list[str]:
    """At most `count` of all sentences, each with the same chance; memory grows with `count`."""
    random = Random(seed)  # noqa: S311 - a sample, not a secret
    kept: list[str] = []
    seen = 0
    for document in documents:
        for sentence in sentences(document):
            seen += 1
            if len(kept) < count:
                kept.append(sentence)
            elif (place := random.randrange(seen)) < count:
                kept[place] = sentence
    return kept
