"""The titles of documents, found while they are typed and with a typing error in each word."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tantivy

from swiftlet.index.documents.passages import LONGEST_TITLE
from swiftlet.index.documents.store import DocumentStore
from swiftlet.index.lexical.analysis import NO_LANGUAGE, FoldedAnalysis
from swiftlet.index.lexical.folding import composed
from swiftlet.index.lexical.typos import EXACT_BELOW
from swiftlet.index.lexical.words import joined
from swiftlet.types import Document, Span

_WRITER_BYTES, _CHARACTERS_AT_ONCE, _CHARACTERS_A_TITLE = 50_000_000, 8_000_000, 100
"""Titles are committed before they fill the memory of the writer. Else the next one would wait for
its segment to be written, and hold the interpreter lock meanwhile, which `commit` does not."""
_DEPTH = 100
"""Titles that are ordered in Python; tantivy orders them by `_TYPED` and `_FIRST` before."""
_TYPED, _FIRST, _WHOLE = 1.0, 0.25, 0.125
_LONGEST = 300
"""The characters of a title that are compared as a whole, and highlighted."""

_TITLE, _SHOWN, _BEGINNING, _SAME, _ID, _ALL = "words", "title", "beginning", "same", "id", "all"
_TOKENIZER = "words"
_MUST, _SHOULD, _MUST_NOT = tantivy.Occur.Must, tantivy.Occur.Should, tantivy.Occur.MustNot


class Suggestion(NamedTuple):
    """A title, the first of the documents that have it, and the spans of what was typed."""

    document_id: str
    title: str
    highlights: tuple[Span, ...]


class TitleIndex:
    """The titles of a base and of its changes, in memory. One thread writes, any may `find`."""

    def __init__(self, base: DocumentStore, is_wanted: Callable[[], bool]) -> None:
        """Read all titles of `base`, or fewer if they are not wanted any more."""
        self.base = base
        self._changed: Mapping[str, Document | None] = {}
        self._analysis = FoldedAnalysis(NO_LANGUAGE)
        schema = tantivy.SchemaBuilder()
        schema.add_text_field(_TITLE, tokenizer_name=_TOKENIZER, index_option="basic")
        schema.add_bytes_field(_SHOWN, stored=True)
        schema.add_text_field(_BEGINNING, tokenizer_name=_TOKENIZER, index_option="basic")
        schema.add_text_field(_ID, True, tokenizer_name="raw", index_option="basic")
        schema.add_text_field(_ALL, tokenizer_name="raw", index_option="basic")
        schema.add_integer_field(_SAME, stored=True, indexed=True)
        self._schema = schema.build()
        self._index = tantivy.Index(self._schema)
        self._index.register_tokenizer(_TOKENIZER, self._analysis.analyser)
        writer, characters = self._index.writer(_WRITER_BYTES, 1), 0
        for titles in base.all_titles():
            if not is_wanted():
                break
            for document_id, title in titles:
                self._add(writer, document_id, title)
                characters += len(title) + _CHARACTERS_A_TITLE
                if characters > _CHARACTERS_AT_ONCE:
                    writer.commit()
                    characters = 0
        self._commit(writer)

    def follow(self, changed: Mapping[str, Document | None]) -> None:
        """Take in what has changed since; `changed` has all changes of the base."""
        before = self._changed
        new = {
            name: document
            for name, document in changed.items()
            if name not in before or before[name] is not document
        }
        if not new:
            return
        writer = self._index.writer(_WRITER_BYTES, 1)
        for document_id, document in new.items():
            writer.delete_documents_by_term(_ID, document_id)
            if document is not None:
                self._add(writer, document_id, document.title)
        self._commit(writer)
        self._changed = changed

    def find(self, text: str, most: int) -> list[Suggestion]:
        """At most `most` titles that have each word of a text, the last one as a beginning.

        A word of `EXACT_BELOW` letters or more may have one wrong, missing or further letter, or
        two that are exchanged. Titles with fewer errors come first, then those that are the text,
        then titles that begin with it, then the shorter titles of the first hundred. Titles that
        differ only in capital letters are one.
        """
        words = self._analysis.words(text)
        if not words:
            return []
        searcher, clauses = self._searcher, self._clauses(words)
        found: list[tuple[tuple[Any, ...], str, str]] = []
        while len(found) < most:
            query = tantivy.Query.boolean_query(clauses)
            hits = searcher.search(query, _DEPTH, count=False).hits
            new: dict[int, tuple[tuple[Any, ...], str, str]] = {}
            for score, address in hits:
                document: Any = searcher.doc(address)
                title = bytes(document.get_first(_SHOWN)).decode()
                document_id = document.get_first(_ID)
                if (same := document.get_first(_SAME)) not in new:
                    new[same] = (-score, len(title), title), document_id, title
            found += new.values()
            if len(hits) < _DEPTH:
                break
            clauses += [(_MUST_NOT, self._term(_SAME, same)) for same in new]
        return [
            Suggestion(document_id, title, self._highlights(words, title))
            for _, document_id, title in sorted(found)[:most]
        ]

    def _clauses(self, words: Sequence[str]) -> list[tuple[Any, Any]]:
        clauses = []
        for number, word in enumerate(words, 1):
            is_last = number == len(words)
            exact = self._near(_TITLE, word, 0, is_last)
            if len(word) < EXACT_BELOW:
                clauses.append((_MUST, _scored(exact, _TYPED)))
            else:
                near = self._near(_TITLE, word, 1, is_last)
                clauses += [(_MUST, _scored(near, 0.0)), (_SHOULD, _scored(exact, _TYPED))]
        distance = int(len(words[0]) >= EXACT_BELOW)
        first = self._near(_BEGINNING, words[0], distance, len(words) == 1)
        whole = " ".join(words)
        return [
            *clauses,
            (_SHOULD, _scored(first, _FIRST)),
            (_SHOULD, _scored(self._near(_ALL, whole, 0, is_beginning=True), _WHOLE)),
            (_SHOULD, _scored(self._term(_ALL, whole), _WHOLE)),
        ]

    def _near(self, field: str, word: str, distance: int, is_beginning: bool) -> Any:
        if distance == 0 and not is_beginning:
            return self._term(field, word)
        return tantivy.Query.fuzzy_term_query(
            self._schema, field, word, distance, prefix=is_beginning
        )

    def _term(self, field: str, value: str | int) -> Any:
        return tantivy.Query.term_query(self._schema, field, value)

    def _highlights(self, words: Sequence[str], title: str) -> tuple[Span, ...]:
        """The words of a title that were typed; of the last one, as much as was typed."""
        spans, different = [], {*words}
        for start, end in self._analysis.spans(title[:_LONGEST]):
            word, last = "".join(self._analysis.words(title[start:end])), words[-1]
            if not word.startswith(last) and any(is_near(typed, word) for typed in different):
                spans.append((start, end))
            elif is_near(last, word, is_beginning=True):
                spans.append((start, self._end_of(last, title, start, end)))
        return joined(spans)

    def _end_of(self, typed: str, title: str, start: int, end: int) -> int:
        """Where the part of `title[start:end]` ends that has as many letters as were typed."""
        least = min(end, start + len(typed))
        if title.isascii():
            return least
        words = self._analysis.words
        lengths = {at: len("".join(words(title[start:at]))) for at in range(least, end + 1)}
        return max((at for at in lengths if lengths[at] <= len(typed)), default=least)

    def _add(self, writer: Any, document_id: str, title: str) -> None:
        title = title[:LONGEST_TITLE]  # each search reads a hundred titles
        if words := title.split(maxsplit=1):
            document = tantivy.Document()
            document.add_bytes(_SHOWN, title.encode())
            document.add_text(_TITLE, self._analysis.parts(title))
            document.add_text(_BEGINNING, self._analysis.parts(words[0]))
            document.add_text(_ALL, " ".join(self._analysis.words(title[:_LONGEST])))
            document.add_text(_ID, document_id)
            document.add_integer(_SAME, _same(title))
            writer.add_document(document)

    def _commit(self, writer: Any) -> None:
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()


def is_near(typed: str, word: str, *, is_beginning: bool = False) -> bool:
    """Whether a word, or a beginning of it, is what was typed but for one error."""
    at = next((at for at, (a, b) in enumerate(zip(typed, word, strict=False)) if a != b), None)
    at = min(len(typed), len(word)) if at is None else at
    typed, word, whole = typed[at:], word[at:], len(typed)
    pairs = [(typed, word)]
    if whole >= EXACT_BELOW:
        pairs += [(typed[1:], word[1:]), (typed[1:], word), (typed, word[1:])]
        if typed[:2] == word[1::-1]:
            pairs.append((typed[2:], word[2:]))
    return any(b.startswith(a) if is_beginning else a == b for a, b in pairs)


def _same(title: str) -> int:
    """A number that titles have in common which look the same."""
    return hash(composed(title).strip().casefold())


def _scored(query: Any, score: float) -> Any:
    return tantivy.Query.const_score_query(query, score)
