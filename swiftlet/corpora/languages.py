"""Which language a text is in, by the first lines of it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cache
from threading import RLock, Thread
from typing import TYPE_CHECKING

import numpy as np

from swiftlet.errors import StorageError
from swiftlet.types import Document

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

FIELD = "language"
"""The field of a document's metadata that has the ISO 639-1 code of its language."""

_CHARACTERS = 300
"""What is read of a text. Of 300 characters, 99.9% of texts in 23 languages are recognised."""
_SURE = 0.7
_LOADING = RLock()

LEAST_SHARE = 0.05
"""Languages of fewer documents, by their share, do not count."""


def language_of(text: str, among: Sequence[str] = ()) -> str:
    """The ISO 639-1 code of a text's language, such as "de"; empty if it is not sure.

    :param among: Codes; one of them is given in any case.
    :raises StorageError: When the temporary folder has no room for the model.
    """
    code: str
    code, sure = _identifier(tuple(among)).classify(text[:_CHARACTERS])
    return code if among or sure >= _SURE else ""


class Languages:
    """How many documents are in each language; "" stands for those that are not sure."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def counted(self, documents: Iterable[Document]) -> Iterator[Document]:
        """The documents, each of which is counted. Those that name their language are believed."""
        for document in documents:
            named = document.metadata.get(FIELD)
            if not (isinstance(named, str) and named in _codes()):
                named = language_of(f"{document.title} {document.text[:_CHARACTERS]}")
            self._counts[named] += 1
            yield document

    def shares(self) -> Mapping[str, float]:
        """The share of each language, the greatest first, of the documents that are sure."""
        sure = [each for each in self._counts.most_common() if each[0]]
        total = sum(count for _, count in sure)
        return {language: round(count / total, 4) for language, count in sure}

    def share_beside(self, language: str) -> float:
        """The share of documents in other languages than this one."""
        return sum(share for each, share in self.shares().items() if each != language)

    def __str__(self) -> str:
        return ", ".join(f"{language} {share:.0%}" for language, share in self.shares().items())

    def main(self) -> Sequence[str]:
        """The languages of at least one document in twenty, the greatest first."""
        return [language for language, share in self.shares().items() if share >= LEAST_SHARE]


def begin_loading() -> None:
    """Load the model on another thread: that takes as long as recognising two thousand texts."""

    def load() -> None:
        with suppress(StorageError):  # `language_of` raises it
            _identifier(())

    Thread(target=load, name="languages", daemon=True).start()


def _identifier(among: tuple[str, ...]) -> "LanguageIdentifier":
    with _LOADING:
        return _loaded(among)


@cache
def _loaded(among: tuple[str, ...]) -> "LanguageIdentifier":
    if among:
        found = copy(_identifier(()))
        found.set_languages(among)
        return found
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    try:  # it is unpacked into a temporary file
        found = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    except OSError as error:
        raise StorageError(
            "the languages of the texts cannot be found, since the temporary folder takes no file "
            f"of 100 MB: {error.strerror}; name the language with --language, or another folder "
            "with TMPDIR"
        ) from error
    found.set_languages([each for each in found.labels if len(each) == len("en")])
    # A text takes the rows of a hundred features, in two thirds of the time.
    found.nb_ptc = np.ascontiguousarray(found.nb_ptc)
    return found


@cache
def _codes() -> frozenset[str]:
    return frozenset(_identifier(()).labels)
