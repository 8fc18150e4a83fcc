"""The writing of lexical indexes, to a folder or in memory."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from uuid import UUID

from swiftlet.retrieval.errors import StorageError
from swiftlet.retrieval.lexical.analysis import analyser
from swiftlet.retrieval.lexical.index import LexicalIndex, empty_index, indexed_passage

_WRITER_BYTES = 128 * 2**20
_SMALL_WRITER_BYTES = 15_000_000  # the least that tantivy takes
_META_FILE = "meta.json"
_READABLE = 0o644


def write_lexical_index(
    folder: Path, passages: Iterable[tuple[str, Sequence[int]]], language: str
) -> Sequence[str]:
    """Write the lexical index of passages in row order; the files' names.

    :param passages: The text of each, and the codes of its document's metadata.

    :raises InvalidArgumentError: When the language is not known.
    :raises StorageError: When the file system refuses.
    """
    words = analyser(language)
    folder.mkdir()
    try:
        index = empty_index(words, folder)
        # With one thread, segments hold consecutive rows.
        writer = index.writer(_WRITER_BYTES, 1)
        for row, (text, codes) in enumerate(passages):
            writer.add_document(indexed_passage(row, text, codes))
        writer.commit()
        writer.wait_merging_threads()
        _rename_segments(folder)
    except (ValueError, OSError) as error:
        raise StorageError(f"cannot write {folder}: {error}") from error
    return [file.name for file in folder.iterdir()]


class GrowingWords:
    """A lexical index in memory, to which passages are added."""

    def __init__(self, language: str) -> None:
        self._index = empty_index(analyser(language))
        self._language = language
        self._opened = LexicalIndex(self._index, language)

    def with_texts(self, texts: Sequence[str]) -> LexicalIndex:
        """The index with `texts` as its next rows; earlier ones stay as they are."""
        if not texts:
            return self._opened
        writer = self._index.writer(_SMALL_WRITER_BYTES, 1)
        for row, text in enumerate(texts, start=self._opened.num_rows):
            writer.add_document(indexed_passage(row, text))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._opened = LexicalIndex(self._index, self._language)
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
            file.rename(folder / f"{name.hex}{file.suffix}")
        content = content.replace(segment["segment_id"], str(name))
    meta.write_text(content)
    for file in folder.iterdir():
        if file.name.startswith("."):
            file.unlink()
        else:
            file.chmod(_READABLE)
