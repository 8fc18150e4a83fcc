"""Synonyms: words that stand for others in searches by words, kept in the manifest of an index."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from swiftlet.arguments import StrPath, path_of
from swiftlet.corpora.lines import LineError, parse_lines
from swiftlet.errors import CorruptIndexError, InvalidArgumentError, shown
from swiftlet.index.directory import locked_index
from swiftlet.index.lexical.analysis import PIECES, Analysis, analysis_in
from swiftlet.index.lexical.syllables import has_syllables
from swiftlet.index.lexical.words import words_in
from swiftlet.manifest import change_details, read_manifest

SYNONYMS = "synonyms"
MOST_SYNONYMS = 10_000


def set_synonyms(index: StrPath, file: StrPath | None) -> int:
    """Write the synonyms of a file into an index in place of its earlier ones; None takes them.

    A line has words that stand for each other, as `tv, television`, or words for which others
    stand, as `k8s => kubernetes`. What follows a `#` is a comment.

    :returns: How many words have synonyms.
    :raises CollectionError: When a line is wrong.
    :raises RetrievalError: When the index is bad, or has no words.
    :raises ArtefactError: When another process is writing the index.
    """
    with locked_index(index) as directory:
        details = read_manifest(directory).details
        if details.get("language") in (None, *PIECES):
            raise InvalidArgumentError(
                f"{index} has no words that could have synonyms: build it with a language"
            )
        found = {} if file is None else _read(path_of("file", file), analysis_in(details))
        change_details(directory, {SYNONYMS: found})
    return len(found)


def synonyms_in(details: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    """The words that stand for a word, by the details of a manifest.

    :raises CorruptIndexError: When they are none.
    """
    found = details.get(SYNONYMS) or {}
    if not isinstance(found, dict) or not all(
        isinstance(each, list) and all(isinstance(word, str) for word in each)
        for each in found.values()
    ):
        raise CorruptIndexError("the synonyms in the manifest of the index are no lists of words")
    return found


def _read(path: Path, analysis: Analysis) -> dict[str, list[str]]:
    found: dict[str, dict[str, None]] = {}

    def words(part: str) -> list[list[str]]:
        """The forms of each word in a part of a line."""
        texts = [text.strip() for text in part.split(",")]
        for text in texts:
            several = has_syllables(text) and len(analysis.words(text)) > 1
            if several or len([*words_in(text)]) != 1:
                raise LineError(f"{shown(text)} is given, but one word between commas is expected")
        return [analysis.words(text) for text in texts]

    def take(line: str) -> None:
        left, arrow, right = line.partition("#")[0].partition("=>")
        if not (left + arrow).strip():
            return
        of_left = words(left)
        of_right = words(right) if arrow else of_left
        if not arrow and len(of_left) == 1:
            raise LineError("one word alone is given: write tv, television or k8s => kubernetes")
        for own in of_left:
            others = [each for other in of_right if other != own for each in other]
            for form in own:
                found.setdefault(form, {}).update(dict.fromkeys(others))
        if len(found) > MOST_SYNONYMS:
            raise LineError(f"at most {MOST_SYNONYMS:,} words may have synonyms: leave some out")

    for _ in parse_lines(path, take):
        pass
    return {word: [*others] for word, others in found.items()}
