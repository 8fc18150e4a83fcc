"""The analysis of text by language: the words that a lexical index has."""

import re
from itertools import pairwise
from typing import Any

import tantivy

from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.errors import InvalidArgumentError, shown

NO_LANGUAGE = "none"
WORD_PIECES, PIECES_AND_PAIRS = PIECES = ("word-pieces", "word-pieces-and-pairs")

LANGUAGES = (
    "arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian",
    "italian", "norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil",
    "turkish", NO_LANGUAGE, *PIECES,
)  # fmt: skip
"""The languages that have a stemmer; "none" keeps every word as it is. "word-pieces" are the tokens
of the document encoder, with pairs of neighbours or without (002, section 4.1)."""

_LONGEST_WORD = 100
# The look-behind and the bound of 16 parts keep the time linear in the length of a text.
_NAME = re.compile(r"(?<![^\W_])[^\W_]+(?:[._]_*[^\W_]+){1,15}")
_JOINT = re.compile(r"[._]_*")


class Analysis:
    """The words of texts in a language: lower case, stems, and no accents.

    A word is a sequence of letters and digits, so each part of an identifier can be found.
    """

    marks_words = True
    """Whether tantivy finds the words in a text, so that they can be highlighted."""

    def __init__(self, language: str) -> None:
        builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        builder = builder.filter(tantivy.Filter.remove_long(_LONGEST_WORD))
        builder = builder.filter(tantivy.Filter.lowercase())
        if language != NO_LANGUAGE:
            builder = builder.filter(tantivy.Filter.stemmer(language))
        self.analyser: Any = builder.filter(tantivy.Filter.ascii_fold()).build()
        """tantivy's analyser of what `indexed` gives."""

    def words(self, text: str) -> list[str]:
        """The words of a text, with repetitions."""
        found: list[str] = self.analyser.analyze(text)
        return found

    def names(self, text: str) -> list[str]:
        """The names of several parts in a text, each as one word."""
        return self.words(_joined_names(text))

    def indexed(self, text: str) -> str:
        """What tantivy is given of a text."""
        return f"{text} {_joined_names(text)}"


class PieceAnalysis(Analysis):
    """The numbers of a text's word pieces as words, and perhaps pairs of pieces."""

    marks_words = False

    def __init__(self, tokenizer: Tokenizer, *, pairs: bool) -> None:
        self.tokenizer, self._pairs = tokenizer, pairs
        self.analyser = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()

    def words(self, text: str) -> list[str]:
        """The pieces of a text, and their pairs, with repetitions."""
        unknown = self.tokenizer.unknown_id
        pieces = [f"{piece}" for piece in self.tokenizer.pieces(text) if piece != unknown]
        return [*pieces, *map("_".join, pairwise(pieces))] if self._pairs else pieces

    def names(self, text: str) -> list[str]:  # noqa: ARG002
        """Names are pieces, too."""
        return []

    def indexed(self, text: str) -> str:
        """The words of a text."""
        return " ".join(self.words(text))


def check_language(language: str) -> None:
    """Refuse a language that is not known.

    :raises InvalidArgumentError: When it is not.
    """
    if language not in LANGUAGES:
        raise InvalidArgumentError(
            f"language is {shown(language)}, but one of {', '.join(LANGUAGES)} is expected"
        )


def analysis_of(language: str, tokenizer: Tokenizer | None = None) -> Analysis:
    """The analysis in a language; word pieces come from the `tokenizer`.

    :raises InvalidArgumentError: When the language is not known, or needs a tokenizer.
    """
    check_language(language)
    if language not in PIECES:
        return Analysis(language)
    if tokenizer is None:
        raise InvalidArgumentError(
            f"language is {language!r}, which needs the tokenizer of an encoder: give an index "
            "that was built with it, or another language"
        )
    return PieceAnalysis(tokenizer, pairs=language == PIECES_AND_PAIRS)


def _joined_names(text: str) -> str:
    """The names in a text, each as one word: of "queue.get_nowait" queuegetnowait and getnowait."""
    joined = []
    for name in _NAME.findall(text):
        rest = name
        while _NAME.match(rest):
            joined.append(_JOINT.sub("", rest))
            rest = rest.partition(".")[2]
    return " ".join(joined)
