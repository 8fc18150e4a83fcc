"""The writing of lexical indexes, to a folder or in memory."""

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from uuid import UUID

from swiftlet import disk
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.errors import StorageError
from swiftlet.index.lexical.analysis import VERSION, Analysis, PieceAnalysis, analysis_of
from swiftlet.index.lexical.index import (
    PIECES_FILE,
    LexicalIndex,
    empty_index,
    indexed_passage,
)
from swiftlet.index.lexical.postings import MOST_ROWS, PostingsWriter

_WRITER_BYTES = 128 * 2**20
_SMALL_WRITER_BYTES = 15_000_000  # the least that tantivy takes
_META_FILE = "meta.json"
_READABLE = 0o644


def write_lexical_index(
    folder: Path,
    passages: Iterable[tuple[str, Sequence[int]]],
    language: str,
    tokenizer: Tokenizer | None = None,
    version: int = VERSION,
) -> Sequence[str]:
    """Write the lexical index of passages in row order; the files' names.

    :param passages: The text of each, and the codes of its document's metadata.
    :param tokenizer: Gives the word pieces, if word pieces are the language.
    :raises InvalidArgumentError: When the language is not known.
    :raises StorageError: When the file system refuses.
    """
    analysis = analysis_of(language, tokenizer, version)
    disk.make_directory(folder)
    try:
        index = empty_index(analysis, folder)
        # With one thread, segments hold consecutive rows.
        writer, postings = index.writer(_WRITER_BYTES, 1), PostingsWriter()
        for row, (text, codes) in enumerate(passages):
            words = analysis.indexed(text)
            writer.add_document(indexed_passage(row, words, codes))
            if row <= MOST_ROWS:
                postings.add(analysis.analyser.analyze(words))
        writer.commit()
        writer.wait_merging_threads()
        _rename_segments(folder)
        postings.save(folder)
        if isinstance(analysis, PieceAnalysis):
            disk.write(folder / PIECES_FILE, analysis.tokenizer.to_json())
    except (ValueError, OSError) as error:
        raise StorageError(f"cannot write {folder}: {error}") from error
    return [file.name for file in folder.iterdir()]


class GrowingWords:
    """A lexical index in memory, to which passages are added."""

    def __init__(self, analysis: Analysis) -> None:
        self._index = empty_index(analysis)
        self._opened = LexicalIndex(self._index, analysis)

    def with_texts(self, texts: Iterable[str]) -> LexicalIndex:
        """The index with `texts` as its next rows; earlier ones stay as they are."""
        rest = iter(texts)
        if (first := next(rest, None)) is None:
            return self._opened
        writer = self._index.writer(_SMALL_WRITER_BYTES, 1)
        for row, text in enumerate(chain([first], rest), start=self._opened.num_rows):
            writer.add_document(indexed_passage(row, self._opened.analysis.indexed(text)))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._opened = LexicalIndex(self._index, self._opened.analysis)
        return self._opened


def _rename_segments(folder: Path) -> None:
    """Give segments numbers for random names, so that a corpus always gives the same files.

    Only the files that a reader needs are left, and every user may read them.
    """
    meta = folder / _META_FILE
    content = meta.read_text()
    for number, segment in enumerate(json.loads(content)["segments"]):
        name = UUID(int=number)
        for file in folder.glob(f"{UUID(segment['segment_id']).hex}.*"):
            disk.rename(file, folder / f"{name.hex}{file.suffix}")
        content = content.replace(segment["segment_id"], str(name))
    disk.write(meta, content)
    for file in folder.iterdir():
        if file.name.startswith("."):
            disk.remove(file)
        else:
            file.chmod(_READABLE)
