"""Texts of the user's own, from which the ranges of activations are learned."""

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import numpy as np

from retrieval.collections import read_documents, read_queries
from retrieval.errors import CollectionError
from retrieval.irds import is_dataset
from retrieval.passages import encoder_text
from retrieval.text_files import TEXT_SUFFIXES

MOST_TEXTS = 200
_FIRST_TEXTS = 10_000
_SEED = 0


def calibration_texts(path: Path) -> list[str]:
    """At most 200 texts of `path`, drawn with a fixed seed from its first 10,000.

    `path` has queries, in any form that `read_queries` takes, or else a corpus, in any that
    `read_documents` takes: of a BEIR folder the queries count.

    :raises CollectionError: When `path` has neither, or a bad line among those that are read.
    """
    # A file of queries can mostly be read as documents too, and those are not all held in memory.
    queries_first = path.is_dir() or is_dataset(path) or path.suffix.lower() in TEXT_SUFFIXES
    readers: list[Callable[[Path], Iterable[str]]] = [_documents, _queries]
    refusals = []
    for read in reversed(readers) if queries_first else readers:
        try:
            texts = list(islice(read(path), _FIRST_TEXTS))
        except CollectionError as error:
            refusals.append(error)
            continue
        drawn = np.random.default_rng(_SEED).permutation(len(texts))[:MOST_TEXTS]
        return [texts[number] for number in np.sort(drawn)]
    # The one that came further knows better what the file is.
    raise max(refusals, key=lambda error: error.line_number or 0)


def _documents(path: Path) -> Iterable[str]:
    return (encoder_text(document.title, document.text) for document in read_documents(path))


def _queries(path: Path) -> Iterable[str]:
    return (query.text for query in read_queries(path))
