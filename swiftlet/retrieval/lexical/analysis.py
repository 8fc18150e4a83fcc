"""The analysis of text by language: the words that a lexical index has."""

from typing import Any

import tantivy

from swiftlet.retrieval.errors import InvalidArgumentError, shown

NO_LANGUAGE = "none"

LANGUAGES = (
    "arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian",
    "italian", "norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil",
    "turkish", NO_LANGUAGE,
)  # fmt: skip
"""The languages that have a stemmer; "none" keeps every word as it is."""

DEFAULT_LANGUAGE = "english"

_LONGEST_WORD = 100


def analyser(language: str) -> Any:
    """tantivy's analyser for a language: lower case, stems, and no accents.

    A word is a sequence of letters and digits, so each part of an identifier can be found.

    :raises InvalidArgumentError: When the language is not known.
    """
    if language not in LANGUAGES:
        raise InvalidArgumentError(
            f"language is {shown(language)}, but one of {', '.join(LANGUAGES)} is expected"
        )
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    builder = builder.filter(tantivy.Filter.remove_long(_LONGEST_WORD))
    builder = builder.filter(tantivy.Filter.lowercase())
    if language != NO_LANGUAGE:
        builder = builder.filter(tantivy.Filter.stemmer(language))
    return builder.filter(tantivy.Filter.ascii_fold()).build()
