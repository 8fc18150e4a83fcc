"""Reads triples of a query, a relevant and a negative document, in MS MARCO's two formats."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from swiftlet.corpora.identifiers import SeenIds
from swiftlet.corpora.lines import LineError, parse_lines, wrong_columns
from swiftlet.corpora.records import query
from swiftlet.errors import CollectionError, shown
from swiftlet.types import Document
from training.data.identifiers import HashIndex, Identifiers

Triples = NDArray[np.int32]
"""Numbers of a query, a relevant document and a negative document, (triples, 3)."""

_BLOCK_LINES = 65_536


@dataclass(frozen=True, slots=True)
class TextTriples:
    """The distinct queries of a file of text triples, and its triples by number."""

    queries: list[str]
    triples: Triples


def text_triples_documents(path: Path) -> Iterator[Document]:
    """The distinct documents of the triples `query \\t positive \\t negative`, in their order.

    The id of a document is its number, counted from 0.

    :raises CollectionError: When the file cannot be read, or a line has not three columns of text.
    """
    seen = SeenIds()
    number = 0
    for _, (_, positive, negative) in parse_lines(path, _TextColumns()):
        for text in (positive, negative):
            if seen.add(text):
                yield Document(str(number), text)
                number += 1


def read_text_triples(path: Path) -> TextTriples:
    """Number the queries and documents of text triples, documents as `text_triples_documents` does.

    Memory: the texts of the queries, 32 bytes per triple and 50 bytes per document.

    :raises CollectionError: As `text_triples_documents`.
    """
    seen = SeenIds()
    queries: dict[str, int] = {}
    query_numbers, document_hashes, distinct = array("i"), array("q"), array("q")
    for _, (text, *documents) in parse_lines(path, _TextColumns()):
        query_numbers.append(queries.setdefault(text, len(queries)))
        for document in documents:
            document_hashes.append(hash(document))
            if seen.add(document):
                distinct.append(hash(document))
    index = HashIndex(np.frombuffer(distinct, np.int64))
    triples = np.empty((len(query_numbers), 3), np.int32)
    triples[:, 0] = query_numbers
    hashes = np.frombuffer(document_hashes, np.int64).reshape(-1, 2)
    triples[:, 1], triples[:, 2] = index.numbers(hashes[:, 0]), index.numbers(hashes[:, 1])
    return TextTriples(list(queries), triples)


def read_id_triples(
    path: Path, query_number: Callable[[str], int | None], documents: Identifiers, prefix: str
) -> Triples:
    """Read the triples `query id \\t positive id \\t negative id`.

    :param query_number: Gives the number of a query id, or None if there is no such query.
    :param documents: The ids of all documents. Ids in the file lack the `prefix`.
    :raises CollectionError: When the file cannot be read, or a line has not three columns, or names
        a query or a document that does not exist.
    """
    blocks = []
    lines = parse_lines(path, _columns)
    while block := list(islice(lines, _BLOCK_LINES)):
        triples = np.empty((len(block), 3), np.int32)
        for place, (number, (query_id, *_)) in enumerate(block):
            found = query_number(query_id)
            if found is None:
                raise CollectionError(path, f"there is no query {shown(query_id)}", number)
            triples[place, 0] = found
        for column, name in ((1, "positive"), (2, "negative")):
            numbers = documents.numbers([prefix + columns[column] for _, columns in block])
            if len(missing := np.flatnonzero(numbers < 0)):
                number, columns = block[missing[0]]
                raise CollectionError(
                    path,
                    f"the {name} {shown(columns[column])} of the query {shown(columns[0])} "
                    "is not in the corpus",
                    number,
                )
            triples[:, column] = numbers
        blocks.append(triples)
    return np.concatenate(blocks)


def _columns(line: str) -> Sequence[str]:
    columns = line.split("\t")
    if len(columns) != 3:
        raise wrong_columns(len(columns), "3 (query, positive, negative)")
    return columns


class _TextColumns:
    """Reads lines of text triples. Refuses a file if its first line has three numbers, thus ids."""

    def __init__(self) -> None:
        self._first = True

    def __call__(self, line: str) -> Sequence[str]:
        columns = _columns(line)
        if self._first and all(column.strip().isdecimal() for column in columns):
            raise LineError("the triples are of ids, not of texts: they need corpus and queries")
        self._first = False
        query("of this line", columns[0])
        for text, name in zip(columns[1:], ("positive", "negative"), strict=True):
            if not text or text.isspace():
                raise LineError(f"the {name} has no text")
        return columns
