"""The analysis of text by language: the words that a lexical index has."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from itertools import chain, pairwise
from typing import Any

import tantivy
from typing_extensions import override

from swiftlet.corpora.languages import language_of
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.errors import CorruptIndexError, InvalidArgumentError, shown
from swiftlet.index.lexical import AUTO, DEFAULT_LANGUAGE
from swiftlet.index.lexical.folding import folded, with_letters
from swiftlet.index.lexical.syllables import has_syllables, syllable_spans
from swiftlet.index.lexical.words import joined, with_names, without_punctuation, words_in
from swiftlet.types import Span

NO_LANGUAGE = "none"
WORD_PIECES, PIECES_AND_PAIRS = PIECES = ("word-pieces", "word-pieces-and-pairs")

LANGUAGES = (
    "arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian",
    "italian", "norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil",
    "turkish", NO_LANGUAGE, *PIECES,
)  # fmt: skip
"""The languages that have a stemmer; "none" keeps every word as it is. "word-pieces" are the tokens
of the document encoder, with pairs of neighbours or without (002, section 4.1)."""

STEMMED = {
    "ar": "arabic", "da": "danish", "nl": "dutch", "en": "english", "fi": "finnish", "fr": "french",
    "de": "german", "el": "greek", "hu": "hungarian", "it": "italian", "nb": "norwegian",
    "nn": "norwegian", "no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian",
    "es": "spanish", "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip
"""The ISO codes of the languages that have a stemmer."""

SEVERAL = ","
"""What stands between the languages of an index that has several."""

ANALYSIS = "analysis"
"""The manifest's key of the version of the analysis; without it, the version is 1."""

VERSION = 2
"""The version of the analysis that new indexes have."""

# With accents, these stemmers find more forms of a word: docs/results/words.md has the figures.
_STEMMED_WITH_ACCENTS = {
    "arabic", "danish", "dutch", "french", "hungarian", "italian", "norwegian", "portuguese",
    "romanian", "spanish", "swedish", "turkish",
}  # fmt: skip
_TURKISH = str.maketrans("I\u0130", "\u0131i")
_KEPT_WORDS = 2**15
_LONGEST_WORD = 100
# The look-behind and the bound of 16 parts keep the time linear in the length of a text.
_NAME = re.compile(r"(?<![^\W_])[^\W_]+(?:[._]_*[^\W_]+){1,15}")
_JOINT = re.compile(r"[._]_*")


class Analysis:
    """The words of texts in a language, as indexes of version 1 have them: stems without accents.

    A word is a sequence of letters and digits, so each part of an identifier can be found.
    """

    def __init__(self, language: str) -> None:
        fold = tantivy.Filter.ascii_fold()
        self.analyser: Any = _analyser(tantivy.Tokenizer.simple(), *_stemmer(language), fold)
        """tantivy's analyser of what `indexed` gives."""

    def words(self, text: str) -> list[str]:
        """The words of a query, with repetitions."""
        found: list[str] = self.analyser.analyze(text)
        return found

    def readings(self, text: str) -> list[list[str]]:
        """The words of a query in each language that it may be in."""
        return [self.words(text)]

    def names(self, text: str) -> list[str]:
        """The names of several parts in a query, each as one word."""
        return self.words(_joined_names(text))

    def indexed(self, text: str) -> str:
        """What tantivy is given of a passage."""
        return f"{text} {_joined_names(text)}"

    def passage_words(self, text: str) -> list[str]:
        """The words of a passage, with repetitions."""
        found: list[str] = self.analyser.analyze(self.indexed(text))
        return found

    def bare(self, word: str) -> str:
        """A word of a query without case and accents, to be corrected; empty if it is not to be."""
        return "".join(_without_accents().analyze(folded(word)))

    def highlighter(self, searched: Iterable[str]) -> Callable[[str], tuple[Span, ...]]:
        """A function that gives the spans of the `searched` words in a text, in order."""
        words, words_of = frozenset(searched), self.kept_words

        @cache
        def is_searched(part: str) -> bool:
            return not words.isdisjoint(words_of(part))

        def highlights(text: str) -> tuple[Span, ...]:
            if not self._has_syllables(text):
                return tuple([word.span() for word in words_in(text) if is_searched(word[0])])
            spans = self.spans(text)
            return joined((start, end) for start, end in spans if is_searched(text[start:end]))

        return highlights

    @cached_property
    def kept_words(self) -> Callable[[str], list[str]]:
        """What `words` gives of a word, kept for the next time."""
        return lru_cache(_KEPT_WORDS)(self.words)

    def spans(self, text: str) -> Iterator[Span]:
        """The spans of all words of a text, by their ends."""
        return (word.span() for word in words_in(text))

    def _has_syllables(self, text: str) -> bool:  # noqa: ARG002
        return False


class FoldedAnalysis(Analysis):
    """The words of texts in a language: stems of words without accents.

    If the stemmer needs the accents, a word is also the stem that it has with them. Of scripts
    without spaces, neighbouring syllables are words.
    """

    def __init__(self, language: str) -> None:
        fold, stem = (tantivy.Filter.ascii_fold(),), _stemmer(language)
        self._accents = language in _STEMMED_WITH_ACCENTS
        self._is_turkish = language == "turkish"
        spaces, filters = (
            tantivy.Tokenizer.whitespace(),
            stem + fold if self._accents else fold + stem,
        )
        self.analyser = _analyser(spaces, *filters)
        self._other_form = lru_cache(_KEPT_WORDS)(self._stemmed_without_accents)

    @override
    def words(self, text: str) -> list[str]:
        found: list[str] = self.analyser.analyze(self._given(self._folded(text)))
        return found

    @override
    def names(self, text: str) -> list[str]:
        if "." not in text and "_" not in text and text.isascii():
            return []
        found: list[str] = self.analyser.analyze(self._given(_joined_names(self._folded(text))))
        return found

    @override
    def indexed(self, text: str) -> str:
        text = with_names(text, accents=self._accents, single=True)
        return self._given(f"{text} {_joined_names(text)}")

    def parts(self, text: str) -> str:
        """What `indexed` gives, without names."""
        return self._given(with_names(text, accents=self._accents, single=True))

    @override
    def spans(self, text: str) -> Iterator[Span]:
        if not self._has_syllables(text):
            return super().spans(text)
        text = with_letters(text)
        words = words_in(text)
        return chain.from_iterable(syllable_spans(text, *word.span()) for word in words)

    @override
    def _has_syllables(self, text: str) -> bool:
        return has_syllables(text)

    def _folded(self, text: str) -> str:
        return with_names(text, accents=self._accents, single=False)

    def _given(self, text: str) -> str:
        """Words between spaces; those with accents a second time, if they have another stem."""
        text = without_punctuation(text)
        if self._is_turkish:
            text = text.translate(_TURKISH)
        if not self._accents or text.isascii():
            return text
        forms = (self._other_form(word) for word in text.split() if not word.isascii())
        return " ".join([text, *filter(None, forms)])

    def _stemmed_without_accents(self, word: str) -> str:
        """A word without accents; empty if its stem is as with them."""
        form = " ".join(_without_accents().analyze(folded(word)))
        return form if self.analyser.analyze(form) != self.analyser.analyze(word) else ""


class MixedAnalysis(Analysis):
    """The words of texts in several languages: of a passage in its own, of a query in each."""

    def __init__(self, languages: Sequence[str]) -> None:
        self._analyses = {language: FoldedAnalysis(language) for language in languages}
        of_stemmers = [code for code, name in STEMMED.items() if name in self._analyses]
        self._codes = [] if NO_LANGUAGE in languages else of_stemmers
        self.analyser = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()

    @override
    def words(self, text: str) -> list[str]:
        return [*united(self.readings(text)).elements()]

    @override
    def readings(self, text: str) -> list[list[str]]:
        return [each.words(text) for each in self._analyses.values()]

    @override
    def names(self, text: str) -> list[str]:
        return [*united(each.names(text) for each in self._analyses.values()).elements()]

    @override
    def indexed(self, text: str) -> str:
        return " ".join(self._own(text).passage_words(text))

    @override
    def spans(self, text: str) -> Iterator[Span]:
        return next(iter(self._analyses.values())).spans(text)

    @override
    def _has_syllables(self, text: str) -> bool:
        return has_syllables(text)

    def _own(self, text: str) -> Analysis:
        name = STEMMED.get(language_of(text, self._codes), NO_LANGUAGE)
        return self._analyses.get(name) or next(iter(self._analyses.values()))


class PieceAnalysis(Analysis):
    """The numbers of a text's word pieces as words, and perhaps pairs of pieces."""

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

    @override
    def bare(self, word: str) -> str:
        """Of a word with an error, pieces are left that are right."""
        return ""

    @override
    def highlighter(self, searched: Iterable[str]) -> Callable[[str], tuple[Span, ...]]:
        """Pieces are not marked."""
        return lambda _: ()


def check_language(language: str) -> None:
    """Refuse a language that is not known.

    :raises InvalidArgumentError: When it is not.
    """
    several = language.split(SEVERAL)
    if not {*several} <= {*LANGUAGES} or (len(several) > 1 and {*several} & {*PIECES}):
        raise InvalidArgumentError(
            f"language is {shown(language)}, but one of {', '.join([AUTO, *LANGUAGES])} is "
            f"expected, or several with stemmers, such as english{SEVERAL}german"
        )


def check_words(language: str, tokenizer: Tokenizer | None) -> None:
    """Refuse the language of a build, which may be "auto".

    :raises InvalidArgumentError: As `analysis_of`.
    """
    if language != AUTO:
        analysis_of(language, tokenizer)


def analysis_of(
    language: str, tokenizer: Tokenizer | None = None, version: int = VERSION
) -> Analysis:
    """The analysis in a language; word pieces come from the `tokenizer`.

    :raises InvalidArgumentError: When the language is not known, or needs a tokenizer.
    :raises CorruptIndexError: When the version is not known.
    """
    check_language(language)
    if language not in PIECES:
        if version not in (1, VERSION):
            raise CorruptIndexError(
                f"the words are of version {shown(version)} of the analysis, but 1 or {VERSION} is "
                "expected: use a newer Swiftlet, or build the index again"
            )
        if SEVERAL in language:
            return MixedAnalysis(language.split(SEVERAL))
        return Analysis(language) if version == 1 else FoldedAnalysis(language)
    if tokenizer is None:
        raise InvalidArgumentError(
            f"language is {language!r}, which needs the tokenizer of an encoder: give an index "
            "that was built with it, or another language"
        )
    return PieceAnalysis(tokenizer, pairs=language == PIECES_AND_PAIRS)


def words_of(codes: Sequence[str]) -> str:
    """The language, or languages, of the words of documents whose languages have these codes."""
    return SEVERAL.join(dict.fromkeys(STEMMED.get(each, NO_LANGUAGE) for each in codes)) or (
        DEFAULT_LANGUAGE
    )


def check_analysis(details: Mapping[str, Any]) -> None:
    """Refuse an index whose words cannot be analysed, by the details of its manifest.

    :raises CorruptIndexError: When its language or the version of the analysis is not known.
    """
    language = details.get("language")
    if language is None or language in PIECES:
        return
    try:
        analysis_in(details)
    except InvalidArgumentError as error:
        raise CorruptIndexError(f"the manifest of the index is wrong: {error}") from error


def analysis_in(details: Mapping[str, Any]) -> Analysis:
    """The analysis of an index on a server, by the details of its manifest."""
    return analysis_of(details["language"], version=version_in(details))


def version_in(details: Mapping[str, Any]) -> int:
    """The version of the analysis of an index, by the details of its manifest."""
    version: int = details.get(ANALYSIS, 1)
    return version


def outdated(details: Mapping[str, Any]) -> bool:
    """Whether an index has words that would be others today, by the details of its manifest."""
    return details.get("language") not in (None, *PIECES) and version_in(details) < VERSION


def united(readings: Iterable[Sequence[str]]) -> Counter[str]:
    """The words of all readings; each as often as the reading has it that has it most often."""
    rest = iter(readings)
    counts = Counter(next(rest, ()))  # most often the only one
    for words in rest:
        counts |= Counter(words)
    return counts


def _analyser(tokenizer: Any, *filters: Any) -> Any:
    builder = tantivy.TextAnalyzerBuilder(tokenizer)
    for each in (tantivy.Filter.remove_long(_LONGEST_WORD), tantivy.Filter.lowercase(), *filters):
        builder = builder.filter(each)
    return builder.build()


@cache
def _without_accents() -> Any:
    return _analyser(tantivy.Tokenizer.whitespace(), tantivy.Filter.ascii_fold())


def _stemmer(language: str) -> tuple[Any, ...]:
    return () if language == NO_LANGUAGE else (tantivy.Filter.stemmer(language),)


def _joined_names(text: str) -> str:
    """The names in a text, each as one word: of "queue.get_nowait" queuegetnowait and getnowait."""
    # Most words have neither: to look at them all would take as long as tantivy takes.
    parts = " ".join([part for part in text.split() if "." in part or "_" in part])
    joined = []
    for name in _NAME.findall(parts):
        rest = name
        while _NAME.match(rest):
            joined.append(_JOINT.sub("", rest))
            rest = rest.partition(".")[2]
    return " ".join(joined)
