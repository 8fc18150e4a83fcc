"""Reads the user's texts, for the calibration of activation ranges and the choice of tokens."""

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import numpy as np

from swiftlet.corpora.collections import read_documents, read_queries
from swiftlet.corpora.irds import is_dataset
from swiftlet.corpora.text_files import TEXT_SUFFIXES
from swiftlet.errors import CollectionError
from swiftlet.index.documents.passages import encoder_text

MOST_TEXTS = 200
_FIRST_TEXTS = 10_000
_SEED = 0


def calibration_texts(path: Path) -> list[str]:
    """At most 200 of the first 10,000 texts of `path`, drawn with a fixed seed.

    :raises CollectionError: As `first_texts`.
    """
    texts = first_texts(path, _FIRST_TEXTS)
    drawn = np.random.default_rng(_SEED).permutation(len(texts))[:MOST_TEXTS]
    return [texts[number] for number in np.sort(drawn)]


def first_texts(path: Path, most: int) -> list[str]:
    """At most so many texts of `path`.

    It has queries, in any form that `read_queries` reads, or else a corpus, in any form that
    `read_documents` reads. In a BEIR folder, the queries are taken.

    :raises CollectionError: When `path` has neither, or one of the lines that are read is bad.
    """
    # Most files of queries can also be read as documents, which are not all kept in memory.
    queries_first = path.is_dir() or is_dataset(path) or path.suffix.lower() in TEXT_SUFFIXES
    readers: list[Callable[[Path], Iterable[str]]] = [_documents, _queries]
    refusals = []
    for read in reversed(readers) if queries_first else readers:
        try:
            return list(islice(read(path), most))
        except CollectionError as error:
            refusals.append(error)
    # The reader that accepted more lines probably fits the format of the file.
    raise max(refusals, key=lambda error: error.line_number or 0)


def _documents(path: Path) -> Iterable[str]:
    return (encoder_text(document.title, document.text) for document in read_documents(path))


def _queries(path: Path) -> Iterable[str]:
    return (query.text for query in read_queries(path))
