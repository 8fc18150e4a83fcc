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

ENGLISH = "en"
LEAST_SHARE = 0.05
"""Languages of fewer documents, by their share, do not count."""
_MOST_UNKNOWN = 0.5


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
        """The share of all documents that is surely in each language, the greatest first."""
        total = self._counts.total()
        return {each: round(count / total, 4) for each, count in self._sure()}

    def share_beside(self, language: str) -> float:
        """The share of all documents that is surely in other languages than this one."""
        return sum(share for each, share in self.shares().items() if each != language)

    @property
    def needs_another_encoder(self) -> bool:
        """Whether an encoder of English is not enough, as far as most languages are known."""
        return not self._is_unknown and self.share_beside(ENGLISH) >= LEAST_SHARE

    def main(self) -> Sequence[str]:
        """The languages of at least one document in twenty, the greatest first.

        English is one of them if the languages of most documents are not known.
        """
        found = [language for language, share in self.shares().items() if share >= LEAST_SHARE]
        return [*dict.fromkeys([*found, ENGLISH])] if self._is_unknown else found

    def sentence(self, names: Mapping[str, str]) -> str:
        """How many documents are in each language, such as "1 of 11 documents is German".

        :param names: Of languages, by their codes; one without a name is called by its code.
        """
        total, unknown, parts = self._counts.total(), self._counts[""], list[str]()
        for code, count in self._sure():
            of = "" if parts else f" of {total:,} document{'s' * (total > 1)}"
            name = names[code].title() if code in names else f"in {code}"
            parts.append(f"{count:,}{of} {'is' if count == 1 else 'are'} {name}")
        rest = f"; the language of {unknown:,} is not known" if unknown else ""
        return ", ".join(parts) + rest

    @property
    def _is_unknown(self) -> bool:
        return self._counts[""] > _MOST_UNKNOWN * self._counts.total()

    def _sure(self) -> Sequence[tuple[str, int]]:
        return [each for each in self._counts.most_common() if each[0]]


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
