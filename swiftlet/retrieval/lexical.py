"""The lexical index: BM25 over the words of passages, by tantivy."""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import log1p
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import tantivy

from swiftlet.retrieval.errors import CorruptIndexError, InvalidArgumentError, StorageError, shown
from swiftlet.retrieval.index import Rows
from swiftlet.retrieval.types import Embeddings, Span

LEXICAL_FOLDER = "lexical"
"""The folder of the lexical index in an index directory."""

NO_LANGUAGE = "none"

LANGUAGES = (
    "arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian",
    "italian", "norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil",
    "turkish", NO_LANGUAGE,
)  # fmt: skip
"""The languages that have a stemmer; "none" keeps every word as it is."""

DEFAULT_LANGUAGE = "english"

_ROW = "row"
_TEXT = "text"
_WORDS = "words"
_LONGEST_WORD = 100
_MOST_WORDS = 64
_COMMON_SHARE = 0.25
_COMMON = 1000
_WRITER_BYTES = 128 * 2**20
_META_FILE = "meta.json"
_READABLE = 0o644
# A container with a read-only file system may have no other place for temporary files.
_SHARED_MEMORY = "/dev/shm"  # noqa: S108
# The look-behind and the bound of 16 parts keep the time linear in the length of a text.
_NAME = re.compile(r"(?<![^\W_])[^\W_]+(?:[._]_*[^\W_]+){1,15}")
_JOINT = re.compile(r"[._]_*")


class LexicalIndex:
    """Finds the passages that share words with a query. Thread-safe.

    The score of a passage is its BM25 score (k1 = 1.2, b = 0.75) divided by the sum of the inverse
    document frequencies of the query's words. So it is about 1 if a passage of average length has
    each word once, for any query and any corpus.

    Words in more than a quarter of all passages, and in more than 1,000, are not searched if a
    query has others. Of a long query, the 64 rarest words are searched.
    """

    def __init__(self, index: Any, language: str) -> None:
        index.config_reader("manual")  # otherwise a thread watches the folder
        self._analyser = analyser(language)
        index.register_tokenizer(_WORDS, self._analyser)
        self._schema = index.schema
        self._searcher = index.searcher()
        self.size: int = self._searcher.num_docs

    @classmethod
    def open(cls, folder: Path, language: str) -> "LexicalIndex":
        """Map the files of `folder`, which `write_lexical_index` wrote, into memory.

        :raises CorruptIndexError: When it cannot be read.
        :raises StorageError: When there is no place for temporary files.
        """
        # tantivy locks a folder that it opens by a file in it, which fails on read-only storage.
        with _temporary_folder() as view:
            for file in folder.iterdir():
                Path(view, file.name).symlink_to(file.absolute())
            try:
                return cls(tantivy.Index.open(view), language)
            except (ValueError, OSError) as error:
                raise CorruptIndexError(f"{folder} is no lexical index: {error}") from error

    def parse(self, text: str) -> "LexicalQuery":
        """The query for a text; no character has a special meaning."""
        counts = Counter(self._analyser.analyze(text))
        # A name that no passage has would only lower all scores: its parts are counted already.
        names = self._analyser.analyze(_joined_names(text))
        counts.update(name for name in names if self._searcher.doc_freq(_TEXT, name))
        return LexicalQuery(self._searcher, self._schema, counts)


class LexicalQuery:
    """The words of a query, to be searched in a lexical index."""

    def __init__(self, searcher: Any, schema: Any, counts: Mapping[str, int]) -> None:
        """Look up the words, which the query has `counts` times, in tantivy's `searcher`."""
        self._searcher, self._schema = searcher, schema
        self._size: int = searcher.num_docs
        passages_with = {word: searcher.doc_freq(_TEXT, word) for word in counts}
        weight = 0.0
        for word, found in passages_with.items():
            weight += counts[word] * log1p((self._size - found + 0.5) / (found + 0.5))
        self._weight = np.float32(weight or 1)
        known = (word for word in counts if passages_with[word])
        rarest = sorted(known, key=passages_with.__getitem__)[:_MOST_WORDS]
        most = max(_COMMON, _COMMON_SHARE * self._size)
        searched = [word for word in rarest if passages_with[word] <= most] or rarest
        self._words = tantivy.Query.boolean_query(
            [(tantivy.Occur.Should, self._word(word, counts[word])) for word in searched]
        )

    def search(self, num_candidates: int) -> tuple[Embeddings, Rows]:
        """Scores (k,) and rows (k,), best first; k is at most `num_candidates`.

        Rows that share no searched word with the query are left out.
        """
        # tantivy reserves memory for as many hits as are asked for.
        return self._found(self._words, min(num_candidates, self._size))

    def scores(self, rows: Rows) -> Embeddings:
        """The scores (n,) of the passages at `rows` (n,), which are ascending, at least one."""
        wanted = tantivy.Query.boolean_query(
            [
                (tantivy.Occur.Should, tantivy.Query.term_query(self._schema, _ROW, row))
                for row in rows.tolist()
            ]
        )
        both = tantivy.Query.boolean_query(
            [
                (tantivy.Occur.Must, self._words),
                (tantivy.Occur.Must, tantivy.Query.const_score_query(wanted, 0.0)),
            ]
        )
        found, at = self._found(both, len(rows))
        scores = np.zeros(len(rows), dtype=np.float32)
        scores[np.searchsorted(rows, at)] = found
        return scores

    def highlights(self, text: str) -> tuple[Span, ...]:
        """The spans of the searched words in a text, in order."""
        marks = tantivy.SnippetGenerator.create(self._searcher, self._words, self._schema, _TEXT)
        marks.set_max_num_chars(len(text.encode()) + 1)  # the snippet is the whole text
        found = marks.snippet_from_doc(tantivy.Document(**{_TEXT: text}))
        first = found.fragment_range().start
        content = text.encode()
        # tantivy counts bytes.
        return tuple(
            (len(content[: first + each.start].decode()), len(content[: first + each.end].decode()))
            for each in found.highlighted()
        )

    def _word(self, word: str, count: int) -> Any:
        query = tantivy.Query.term_query(self._schema, _TEXT, word, "freq")
        return query if count == 1 else tantivy.Query.boost_query(query, float(count))

    def _found(self, query: Any, most: int) -> tuple[Embeddings, Rows]:
        hits = self._searcher.search(query, most, count=False).hits
        rows = self._searcher.fast_field_values(_ROW, [address for _, address in hits])
        scores = np.fromiter((score for score, _ in hits), np.float32, len(hits))
        return scores / self._weight, np.asarray(rows, dtype=np.int64)


def write_lexical_index(folder: Path, texts: Iterable[str], language: str) -> Sequence[str]:
    """Write the lexical index of `texts`, one for each passage in row order; the files' names.

    :raises InvalidArgumentError: When the language is not known.
    :raises StorageError: When the file system refuses.
    """
    words = analyser(language)
    schema = tantivy.SchemaBuilder()
    schema.add_text_field(_TEXT, tokenizer_name=_WORDS, index_option="freq")
    schema.add_unsigned_field(_ROW, indexed=True, fast=True)
    folder.mkdir()
    try:
        index = tantivy.Index(schema.build(), str(folder))
        index.register_tokenizer(_WORDS, words)
        # With one thread, segments hold consecutive rows.
        writer = index.writer(_WRITER_BYTES, 1)
        for row, text in enumerate(texts):
            passage = tantivy.Document()
            passage.add_text(_TEXT, f"{text} {_joined_names(text)}")
            passage.add_unsigned(_ROW, row)
            writer.add_document(passage)
        writer.commit()
        writer.wait_merging_threads()
        _rename_segments(folder)
    except (ValueError, OSError) as error:
        raise StorageError(f"cannot write {folder}: {error}") from error
    return [file.name for file in folder.iterdir()]


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


def analyser(language: str) -> Any:
    """tantivy's analyser for a language: lower case, stems, and no accents.

    A word is a sequence of letters and digits, so each part of an identifier can be found.

    :raises InvalidArgumentError: When the language is not known.
    """
    if language not in LANGUAGES:
        raise InvalidArgumentError(
            f"language is {shown(language)}, but one of {', '.join(LANGUAGES)} is expected"
        )
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    builder = builder.filter(tantivy.Filter.remove_long(_LONGEST_WORD))
    builder = builder.filter(tantivy.Filter.lowercase())
    if language != NO_LANGUAGE:
        builder = builder.filter(tantivy.Filter.stemmer(language))
    return builder.filter(tantivy.Filter.ascii_fold()).build()


def _joined_names(text: str) -> str:
    """The names in a text, each as one word: of "queue.get_nowait" queuegetnowait and getnowait."""
    joined = []
    for name in _NAME.findall(text):
        rest = name
        while _NAME.match(rest):
            joined.append(_JOINT.sub("", rest))
            rest = rest.partition(".")[2]
    return " ".join(joined)


def _temporary_folder() -> "tempfile.TemporaryDirectory[str]":
    # tantivy's thread may write its lock into the folder while it is being removed.
    folder = partial(tempfile.TemporaryDirectory, ignore_cleanup_errors=True)
    try:
        return folder()
    except OSError:
        pass
    try:
        return folder(dir=_SHARED_MEMORY)
    except OSError as error:
        raise StorageError(
            f"there is no place for temporary files: {error.strerror}; set TMPDIR to a folder that "
            "can be written"
        ) from error
