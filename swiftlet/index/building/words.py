"""Writes the words of a document store: in this process, or in one beside it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from swiftlet import disk
from swiftlet.database import connect_read_only
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.index.columns.columns import COLUMNS_FOLDER, Columns
from swiftlet.index.documents.store import DOCUMENTS_FILE
from swiftlet.index.documents.writer import StoredCorpus
from swiftlet.index.lexical.index import LEXICAL_FOLDER
from swiftlet.index.lexical.writer import write_lexical_index


def index_words(
    artefact: Path,
    num_documents: int,
    language: str,
    analysis: int,
    *,
    headings: bool,
    tokenizer: Tokenizer | None = None,
    advance: Callable[[int], object] = lambda _: None,
) -> Sequence[str]:
    """Write the lexical index of a directory that has a document store and columns; its files.

    :param headings: As in `StoredCorpus`.
    :param tokenizer: As in `write_lexical_index`.
    :param advance: Called for each passage.
    :raises StorageError: When the file system refuses.
    """
    codes = Columns.open(artefact / COLUMNS_FOLDER).codes_of_documents(num_documents)
    disk.remove_tree(artefact / LEXICAL_FOLDER, ignore_errors=True)  # of work that has failed
    with closing(connect_read_only(artefact / DOCUMENTS_FILE)) as store:
        corpus = StoredCorpus(store, num_documents, 0, "", np.empty(0, np.uint64), headings)

        def passages() -> Iterator[tuple[str, list[int]]]:
            numbers = corpus.passage_to_document
            for text, document in zip(corpus.encoder_texts(), numbers, strict=True):
                yield text, codes(document)
                advance(1)

        names = write_lexical_index(
            artefact / LEXICAL_FOLDER, passages(), language, tokenizer, analysis
        )
    return [f"{LEXICAL_FOLDER}/{name}" for name in names]
