"""Reads triples of a query, a relevant and a negative document in MS MARCO's format of ids."""

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from swiftlet.corpora.lines import parse_lines, wrong_columns
from swiftlet.errors import CollectionError, shown
from training.data.identifiers import Identifiers

Triples = NDArray[np.int32]
"""Numbers of a query, a relevant document and a negative document, (triples, 3)."""

_BLOCK_LINES = 65_536


def read_triples(
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
